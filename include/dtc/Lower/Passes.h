// The passes of the phase Schedule.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Schedule/PassingParts.h"

#include "mlir/Pass/Pass.h"

namespace dtc::lower {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Lower/Passes.h.inc"

} // namespace dtc::lower
