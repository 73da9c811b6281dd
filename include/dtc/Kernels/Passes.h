// The passes from layers to kernels.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Target/Target.h"

#include "mlir/Pass/Pass.h"

namespace dtc::kernels {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Kernels/Passes.h.inc"

/// As createLayersToKernels(), and adds each kernel to `compilation`, which is closed then. Null:
/// nothing is compiled.
std::unique_ptr<mlir::Pass> createLayersToKernels(target::KernelCompilation *compilation);

} // namespace dtc::kernels
