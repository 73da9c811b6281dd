// What libraries compute, on strided parts of tensors.
#pragma once

#include "Kernels.h"

#include "dtc/Interpreter/Interpreter.h"

namespace dtc::interpreter {

/// True for exec.matmul, exec.conv_weight_grad and exec.attention.
bool isCallOnParts(mlir::Operation *op);

/// Its results on one rank; not yet rounded.
mlir::FailureOr<Tensors> evaluateCallOnParts(mlir::Operation *op, Operands operands,
                                             Numerics numerics);

} // namespace dtc::interpreter
