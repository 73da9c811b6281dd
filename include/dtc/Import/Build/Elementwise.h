// Arithmetic, comparison and activations on tensors that are constants or values of the graph
// alike.
//
// Operators are named as ONNX names them: "Add", "GreaterOrEqual", "Erf".
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// Whether it is a constant whose elements all have this value.
bool isSplatOf(const Host &host, double value);

/// Operands of one element type (but for "Pow"), which broadcast.
llvm::FailureOr<Tensor> binary(Conversion &node, llvm::StringRef op, const Tensor &lhs,
                               const Tensor &rhs);
llvm::FailureOr<Tensor> unary(Conversion &node, llvm::StringRef op, const Tensor &input);
llvm::FailureOr<Tensor> activation(Conversion &node, graph::Activation kind, const Tensor &input);
/// Bounds may be null. As in PyTorch, no gradient passes where a bound that is a number is met.
llvm::FailureOr<Tensor> clamp(Conversion &node, const Tensor &input, const Tensor *low,
                              const Tensor *high);
llvm::FailureOr<Tensor> select(Conversion &node, const Tensor &condition, const Tensor &lhs,
                               const Tensor &rhs);
llvm::FailureOr<Tensor> cast(Conversion &node, const Tensor &input, mlir::Type to);

/// x where x > 0, else `below`.
mlir::Value whereAbove(Emitter &emit, mlir::Value x, mlir::Value below);
/// x * tanh(softplus(x)).
mlir::Value mish(Emitter &emit, mlir::Value x);
/// x where x > 0, else alpha * (exp(x) - 1).
mlir::Value elu(Emitter &emit, mlir::Value x, double alpha);

} // namespace dtc::import
