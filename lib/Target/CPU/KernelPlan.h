// How a kernel's body is turned into loops.
//
// The body of an exec.kernel says what is computed, the plan says by which
// loops. There are these kinds of kernels:
//
//   pointwise  every result element on its own. The elements of the results are
//              numbered 0..n-1; where an op needs more than the number (a bias
//              per column, a transpose), the numbers are split into rows and
//              columns. Without any split the kernel is flat.
//   rows       reductions that leave one value a row (softmax, layer norm,
//              cross entropy): for each row a loop over its columns per level
//              of dependent reductions, then one that writes the results.
//   columns    reductions over rows that keep the columns (bias gradients):
//              blocks of columns; within one, rows one after the other.
//   scatter    one scatter_add; ranges of table rows.
//   scan       one cumsum or top_k; the other dimensions' elements.
//   pool       one max_pool_grad; planes.
//
// Extents of loops start as one number each and are split where index arithmetic would need a
// division. Planning emits the kernel, looks where divisions occurred, splits there and emits
// again.
#pragma once

#include "dtc/Kernels/KernelBody.h"

#include <map>
#include <set>

namespace dtc::cpu {

using kernels::BodyInfo;
using kernels::KernelKind;

/// A nest of loops whose extents multiply to the number of elements. It has the places at which the
/// innermost is cut, so that a piece of a concatenation is known within each part.
struct LoopShape {
  llvm::SmallVector<int64_t> extents;
  std::set<int64_t> cuts;

  int64_t size() const;
  int64_t inner() const { return extents.back(); }
};

/// Which loop of a kernel: an output group's or a reduction's.
struct LoopId {
  enum Of { Output, Reduction } of = Output;
  unsigned index = 0; ///< of the group, or of the op in the body

  auto operator<=>(const LoopId &) const = default;
};

/// A value that more than one loop of a row needs, kept in scratch memory.
struct Stash {
  unsigned op = 0;        ///< index in the body
  int64_t scratchOffset = 0; ///< in bytes
};

/// How the elements of a row are divided among lanes, each of which has a sum of its own.
struct RowLanes {
  int64_t run = 1;  ///< elements that lie side by side
  int64_t runs = 0; ///< in a row
  int64_t lanes = 1;

  explicit RowLanes(graph::ReduceOp op);
  int64_t vectors() const { return run / lanes; } ///< whole ones of a run
  int64_t rest() const { return run % lanes; }
};

/// Whether the order of its elements decides how a reduction is rounded.
bool addsInLanes(graph::ReduceOp op);
/// Whether a reduction is so short that it has no loop, in whatever kernel it is.
bool isWrittenOut(graph::ReduceOp op);

struct KernelPlan {
  KernelKind kind = KernelKind::Pointwise;
  int64_t rows = 1;    ///< rows: their number
  int64_t blocks = 1;  ///< columns: blocks of columns for each leading index
  int64_t block = 0;   ///< columns: columns in a block
  std::map<LoopId, LoopShape> loops;
  std::vector<Stash> stashes;

  int64_t extent = 1;
  int64_t scratchBytes = 0;
  int64_t grain = 1; ///< least iterations that are worth a thread
  bool flat = false;
  /// For each result, an operand whose buffer it may overwrite, or -1.
  llvm::SmallVector<int64_t> inPlace;
};

/// Plans the kernel whose body is `body` (ended by exec.yield). Reports what
/// cannot be lowered at the op's location.
llvm::FailureOr<KernelPlan> planKernel(mlir::Block &body);

} // namespace dtc::cpu
