// The passes that make programs of pipeline ranks.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "mlir/Pass/Pass.h"

namespace dtc::stages {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Stages/Passes.h.inc"

} // namespace dtc::stages
