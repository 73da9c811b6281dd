// The passes from layers to kernels.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/Pass/Pass.h"

namespace dtc::kernels {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Kernels/Passes.h.inc"

} // namespace dtc::kernels
