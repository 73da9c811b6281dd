// What the threads of a warp, and of a block, do together.
#pragma once

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

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

/// Memory of the block, for one of its kernels: an array of so many elements.
mlir::Value sharedArray(mlir::OpBuilder &builder, mlir::LLVM::LLVMFuncOp function,
                        const llvm::Twine &name, mlir::Type stored, int64_t count);

} // namespace dtc::cuda
