// Calls on strided parts of tensors: those of libraries, and products of tiles of experts.
#pragma once

#include "Kernels.h"

#include "dtc/Interpreter/Interpreter.h"

namespace dtc::interpreter {

/// True for exec.matmul, exec.grouped_matmul, exec.conv_weight_grad and exec.attention.
bool isCallOnParts(mlir::Operation *op);

/// Its results on one rank; not yet rounded.
mlir::FailureOr<Tensors> evaluateCallOnParts(mlir::Operation *op, Operands operands,
                                             Numerics numerics);

} // namespace dtc::interpreter
