// Planning as passes, for tests and tools; the driver's plan phase is in lib/Driver.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "mlir/Pass/Pass.h"

namespace dtc::planbridge {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/PlanBridge/Passes.h.inc"

} // namespace dtc::planbridge
