// The passes of the phase Schedule.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/Pass/Pass.h"

namespace dtc::schedule {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Schedule/Passes.h.inc"

} // namespace dtc::schedule
