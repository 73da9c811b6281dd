// Kernels of one op whose items are loops of their own: cumsum, top_k, max_pool_grad.
//
// An item (a line of a cumsum or top_k, a plane of a max_pool_grad) is done by one worker, step
// after step. The host has the workers; it writes the loops and knows where results lie.
#pragma once

#include "dtc/Kernels/ElementEvaluator.h"

#include <functional>

namespace dtc::kernels {

/// What the loops of an item need of who hosts them, beside scalars.
class ItemHost {
public:
  using Values = llvm::SmallVector<mlir::Value, 2>;
  using LoopBody = std::function<Values(mlir::AffineExpr, mlir::ValueRange)>;

  virtual ~ItemHost() = default;
  /// A loop over `range` in its order; the body gets the variable and the accumulators.
  virtual Values itemLoop(Range range, mlir::ValueRange initial, const LoopBody &body) = 0;
  /// Of the kernel's only result.
  virtual void storeResult(mlir::AffineExpr offset, mlir::Value value) = 0;
  virtual void addToResult(mlir::AffineExpr offset, mlir::Value value) = 0;
};

class ItemLoops {
public:
  ItemLoops(mlir::OpBuilder &builder, ElementEvaluator &evaluator, ItemHost &host)
      : builder(builder), evaluator(evaluator), host(host), math(evaluator.math) {}

  /// How many items `op` has.
  static int64_t itemsOf(mlir::Operation *op);
  void emit(mlir::Operation *op, mlir::AffineExpr item);

private:
  using Values = ItemHost::Values;

  void emitCumSum(graph::CumSumOp op, mlir::AffineExpr line);
  void emitTopK(graph::TopKOp op, mlir::AffineExpr line);
  void emitPoolPlane(graph::MaxPoolGradOp op, mlir::AffineExpr plane);
  /// Where the largest element of a window is, by its place in the plane.
  mlir::Value largestOf(graph::MaxPoolGradOp op, const Index &leading, const Index &window);
  /// Whether `a` at `first` comes before `b` at `second`: by `order`, then by place.
  mlir::Value comesBefore(mlir::arith::CmpFPredicate order, mlir::Value a, mlir::Value b,
                          mlir::Value first, mlir::Value second);
  mlir::Value sortKey(graph::TopKOp op, const Index &index);

  mlir::OpBuilder &builder;
  ElementEvaluator &evaluator;
  ItemHost &host;
  IndexMath &math;
};

} // namespace dtc::kernels
