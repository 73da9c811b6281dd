// What the threads of a warp, and of a block, do together.
#pragma once

#include "mlir/IR/Builders.h"

namespace dtc::cuda {

/// At the builder's insertion point, which all threads of a warp reach together.
struct WarpOps {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// `value` of the lane whose number differs from this one's in the bits of `mask`.
  mlir::Value shuffleXor(mlir::Value value, int32_t mask);
  /// A bit for each lane: whether `condition` holds there.
  mlir::Value ballot(mlir::Value condition);
  /// A bit for each lane: whether its `value`, of 32 bits, is this one's.
  mlir::Value match(mlir::Value value);
  /// Waits for the other lanes, and orders memory among them.
  void meet();
  /// Waits for the other threads of the block.
  void meetInBlock();

private:
  mlir::Value integer(int32_t value);
  mlir::Value shuffleWord(mlir::Value word, int32_t mask);
};

} // namespace dtc::cuda
