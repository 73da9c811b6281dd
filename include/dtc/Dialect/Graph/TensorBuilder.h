// Builds tensor arithmetic without ceremony: decompositions, gradients, losses.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::graph {

/// Ops at one location. Operations that would change nothing (a broadcast to
/// the same shape, a conversion to the same type) return their operand.
///
///   TensorBuilder b(builder, op->getLoc());
///   Value mean = b.scale(b.sum(x, {1}), 1.0 / n);
///   Value centred = b.sub(x, b.spread(mean, shapeOf(x), {1}));
class TensorBuilder {
public:
  TensorBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// A tensor of one value: of floats, of integers.
  mlir::Value constant(mlir::Type tensorType, double value);
  mlir::Value constantLike(mlir::Value like, double value);
  mlir::Value integer(mlir::Type tensorType, int64_t value);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value maximum(mlir::Value a, mlir::Value b);
  mlir::Value minimum(mlir::Value a, mlir::Value b);
  mlir::Value negate(mlir::Value a);
  /// a * factor and a + term, by a constant.
  mlir::Value scale(mlir::Value a, double factor);
  mlir::Value offset(mlir::Value a, double term);
  mlir::Value square(mlir::Value a) { return mul(a, a); }
  mlir::Value reciprocal(mlir::Value a);
  /// A unary op of the math dialect: `unary<math::ExpOp>(x)`.
  template <typename Op> mlir::Value unary(mlir::Value a) { return Op::create(builder, loc, a); }

  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, double b);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, int64_t b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// `value` where the condition holds, the constant elsewhere, or the reverse.
  mlir::Value selectOr(mlir::Value condition, mlir::Value a, double otherwise);
  mlir::Value selectOr(mlir::Value condition, double value, mlir::Value otherwise);

  /// To another element type: float to float, i1 (as 0 or 1) or signed integer to float.
  mlir::Value convert(mlir::Value a, mlir::Type elementType);
  /// To the type in which statistics are kept: f64 for f64, otherwise f32.
  mlir::Value widen(mlir::Value a);

  mlir::Value reduce(ReduceKind kind, mlir::Value a, llvm::ArrayRef<int64_t> dims);
  mlir::Value sum(mlir::Value a, llvm::ArrayRef<int64_t> dims) {
    return reduce(ReduceKind::Sum, a, dims);
  }
  mlir::Value broadcast(mlir::Value a, llvm::ArrayRef<int64_t> dims,
                        llvm::ArrayRef<int64_t> shape);
  /// Broadcasts along the dimensions `fresh` of `shape`, which `a` lacks: undoes
  /// a reduction's change of shape.
  mlir::Value spread(mlir::Value a, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> fresh);
  mlir::Value reshape(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value a, llvm::ArrayRef<int64_t> perm);
  mlir::Value iota(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, int64_t dim);
  mlir::Value contract(mlir::Value lhs, llvm::ArrayRef<int64_t> lhsIndices, mlir::Value rhs,
                       llvm::ArrayRef<int64_t> rhsIndices, llvm::ArrayRef<int64_t> resultIndices,
                       mlir::Type elementType);
};

/// The element type of statistics about values of `elementType`.
mlir::Type statisticsType(mlir::Type elementType);

/// 0, 1, ... rank-1 without `dims`.
llvm::SmallVector<int64_t> otherDims(int64_t rank, llvm::ArrayRef<int64_t> dims);

} // namespace dtc::graph
