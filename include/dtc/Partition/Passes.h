// The passes of the phase partition.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Partition/Partition.h"

#include "mlir/Pass/Pass.h"

namespace dtc::partition {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Partition/Passes.h.inc"

} // namespace dtc::partition
