// How the threads of a GPU share products with the matrices of experts.
//
// A block has a tile of rows and columns of the result, which its eight warps share. It goes
// through what is summed in steps, of which it has two in its memory: while the tensor cores
// multiply one, the next is on its way.
//
//     for each step of 32 along k
//       registers := the next step's part of lhs and rhs           16 bytes at a time
//       sums += lhs * rhs, of the parts in the block's memory      mma.m16n8k16
//       the block's memory := registers
//
// With products of an expert that are added up, a block has a tile of the expert's result. It looks
// through the choices for those of its expert, and goes through each one's k in their order. So
// sums have one order, whatever the threads do.
//
// Either dimension of an operand may be the one whose elements lie side by side. The block's memory
// has it innermost, too, and matrices are turned as they are read from there (ldmatrix.trans).
#pragma once

#include "dtc/Dialect/Exec/GroupedMatmulOp.h"
#include "dtc/Kernels/GroupedForm.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace dtc::cuda {

struct ProductTiles {
  explicit ProductTiles(exec::GroupedMatmulOp op);

  static constexpr int64_t kThreads = 256, kColumns = 128, kStep = 32;
  int64_t rows; ///< of a block: 64 or 128
  int64_t rowTiles, columnTiles;
  int64_t groups; ///< products, or experts whose products are added up
  int64_t blocks() const { return groups * rowTiles * columnTiles; }
  /// Blocks that the registers of a processor have room for, without spilling any.
  int32_t atOnce() const { return rows > 64 ? 1 : 2; }
};

/// Whether tensor cores have products of these operands, and 16 bytes at a time can be read of
/// them.
bool multipliesTiles(const kernels::GroupedForm &form, mlir::Type operand, mlir::Type result);

/// The same of products that have their form already.
bool multipliesTiles(exec::GroupedMatmulOp op);

/// Writes what a thread does at the builder's insertion point. `pointers`: of lhs, rhs, choices and
/// the result, in global memory; `block` and `thread` are numbers, as i32.
void emitProductTiles(exec::GroupedMatmulOp op, mlir::LLVM::LLVMFuncOp function,
                      mlir::ValueRange pointers, mlir::Value block, mlir::Value thread,
                      mlir::OpBuilder &builder);

} // namespace dtc::cuda
