// How the threads of a GPU share a kernel's work.
//
//   pointwise  a thread computes `unit` neighbouring elements of each result, which memory moves
//              in one access of up to 16 bytes. It may do `turns` of these, `apart` elements from
//              each other, which read the same (Turns.h).
//   rows       `lanes` threads share a row: one thread, a warp, or a block of several warps. A
//              thread takes units of neighbouring columns, `lanes` units apart. What a thread
//              has of a row stays in registers where it is few. Else its block keeps what several
//              passes read, where its memory has room, and each pass reads the rest again. Where
//              rows begin within an access, units are accesses all the same. The columns before the
//              first whole one and behind the last are units of their own.
//   columns    a warp has 32 units of neighbouring columns, one a lane; `lanes` warps of a block
//              share the rows, and the first adds up what they found, in their order. Few columns
//              of many rows are columns of slices first (KernelLimits::fewColumns).
//   scatter    a block owns some rows of the table. Its warps look through the indices for them and
//              list those that they find, in their order; its threads have columns of the rows. Or
//              the indices are in buckets, of which the block reads its own.
//   buckets    a block sorts a part of the indices (dtc.bucket_indices).
//   scan, pool a thread does an item.
//   products   a block does a tile of the result (ProductTiles.h).
//
// A pointwise kernel of several pieces gives each as many blocks as it needs. A block finds out by
// its number which piece it does a part of. Where pieces are added up, a block leaves the sum of
// its part in the place of its number. A thread adds up `rounds` units, as many apart as there are
// threads. Then all threads add up what they have, as those that share a row do.
//
// With rows of 768 columns: three warps, units of 4, two units a thread; the row is read once.
//
// Sums are formed in an order that depends on the plan alone: the same bits every time.
#pragma once

#include "dtc/Kernels/KernelBody.h"

namespace dtc::cuda {

using kernels::BodyInfo;
using kernels::KernelKind;

inline constexpr int64_t kWarp = 32;
/// What memory moves at most for a thread in one access.
inline constexpr int64_t kAccessBytes = 16;

inline int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct KernelPlan {
  KernelKind kind = KernelKind::Pointwise;
  int64_t items = 1;  ///< units, rows, result elements or items: what groups of threads share
  int64_t unit = 1;   ///< neighbouring elements that a thread does together
  int64_t lanes = 1;  ///< rows: threads that share a row; columns: warps that share the
                      ///< columns; scatter: rows of a block
  int64_t rounds = 1; ///< pieces that are added up: units of a thread
  int64_t turns = 1, apart = 0; ///< pointwise: units of a thread, and elements between two of them
  bool shifted = false;         ///< rows: they begin anywhere within an access
  int64_t blocks = 1, threads = 1;
  /// Operands of long rows that a block keeps in its memory, and where a row of each begins there.
  struct KeptOperand {
    unsigned operand;
    int64_t offset;
  };
  llvm::SmallVector<KeptOperand> kept;
  int64_t sharedBytes = 0; ///< of kept rows
  struct Piece {
    int64_t firstBlock, items;
  };
  llvm::SmallVector<Piece> pieces; ///< of a kernel that has several; items are the first one's
  /// For each result, an operand whose buffer it may overwrite, or -1.
  llvm::SmallVector<int64_t> inPlace;

  /// Items that a block does.
  int64_t itemsInBlock() const;
  /// Whether every group of threads has an item.
  bool isFull() const { return blocks * itemsInBlock() == items; }
};

/// Plans the kernel whose body is `body` (ended by exec.yield). Reports what
/// cannot be computed at the op's location.
llvm::FailureOr<KernelPlan> planKernel(mlir::Block &body);

} // namespace dtc::cuda
