// Attention that has nothing to compute again, as a library takes it whole.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::driver {

/// Selective recomputation is of what attention keeps inside. One that a library computes whole
/// keeps nothing, and its operands would be exchanged once more in vain. Takes the mark of
/// recomputation from such attention in a module that a plan was written into.
void keepWholeAttention(mlir::ModuleOp module, const target::Target &target);

} // namespace dtc::driver
