// Updates of many parameters by one kernel.
//
// A GPU takes longer to begin a kernel than to update a bias. So updates that do the same, to
// tensors of whatever sizes, are pieces of one kernel (exec.kernel), as many as may be:
//
//     %p1, %m1 = dtc.adam_update %p, ...       of 4096 elements
//     %p2, %m2 = dtc.adam_update %q, ...       of 64
//   becomes
//     %r:4 = exec.launch @pointwise_0(%p, ..., %q, ..., %learning_rate)
//
// It stands where the last one did, which is possible where nothing reads the others' results
// before.
#pragma once

#include "Updates.h"

namespace dtc::kernels {

/// Tensors of a multiple of these are read and written in whole accesses; others element by
/// element, which shouldn't make all of a batch slow.
inline constexpr int64_t kWholeAccess = 8;

struct UpdatePiece {
  const Update *update = nullptr;
  mlir::func::FuncOp alone; ///< what it does, in primitive ops
  /// What it does, whatever the number of elements; empty: it can't be a piece.
  llvm::StringRef text;
  llvm::SmallVector<int64_t> replaces; ///< findReplaced
};

/// The operands of a kernel for several updates: each piece's tensors, then the scalars of all.
class BatchOperands {
public:
  explicit BatchOperands(llvm::ArrayRef<UpdatePiece> pieces);

  llvm::SmallVector<mlir::Value> values;
  /// Which operand a piece's input is.
  unsigned numberOf(size_t piece, size_t input) const;
  /// For each result of all pieces; empty where none replaces anything.
  llvm::SmallVector<int64_t> replaces() const;

private:
  llvm::ArrayRef<UpdatePiece> pieces;
  llvm::SmallVector<int64_t> place; ///< by input: among its piece's own, or -1 - that of a scalar
  unsigned own = 0;
};

/// The numbers of updates that are made together, alone or as pieces of one kernel, the largest
/// first. All of `pieces` are in one of them.
std::vector<llvm::SmallVector<size_t>> batchUpdates(mlir::func::FuncOp func,
                                                    llvm::ArrayRef<UpdatePiece> pieces,
                                                    const target::KernelLimits &limits);

/// Puts what `launch` makes in the place of updates; its results are those of all of them.
void replaceTogether(
    llvm::ArrayRef<UpdatePiece> pieces,
    llvm::function_ref<mlir::ResultRange(mlir::OpBuilder &, mlir::TypeRange)> launch);

} // namespace dtc::kernels
