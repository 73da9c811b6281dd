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
// Extents of loops start as one number each and are split where index
// arithmetic would need a division: planning emits the kernel, looks where
// divisions occurred, splits there and emits again.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include <map>
#include <set>

namespace dtc::cpu {

/// Elements of a tensor, or of an op's first result.
int64_t elementsOf(mlir::Value value);
int64_t elementsOf(mlir::Operation *op);

enum class KernelKind { Pointwise, Rows, Columns, Scatter, Scan, Pool };

/// A nest of loops whose extents multiply to the number of elements, and the
/// places at which the innermost is cut so that a piece of a concatenation is
/// known within each part.
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

/// What planning needs to know about a body's ops, by their index.
class BodyInfo {
public:
  explicit BodyInfo(mlir::Block &body);

  mlir::Block &body;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> results; ///< yielded
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
};

/// The kind of a body; refused with a diagnostic where it mixes what no kind allows.
llvm::FailureOr<KernelKind> classify(const BodyInfo &info);

/// The op that makes a special kernel's result: it, or an addition to it of other terms.
struct SpecialResult {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<mlir::Value> terms; ///< of a scatter_add
};
SpecialResult specialResult(const BodyInfo &info);

/// True if a pointwise body does the same to every element, whatever the shape.
bool isFlat(const BodyInfo &info);

/// The reductions of a rows kernel that run once per row, in groups that share
/// a loop, in the order of execution.
std::vector<std::vector<graph::ReduceOp>> reductionGroups(const BodyInfo &info, int64_t rows);

/// The results of a rows kernel that have equally many columns and share a loop.
struct OutputGroup {
  int64_t columns = 1;
  llvm::SmallVector<unsigned> results;
};
std::vector<OutputGroup> outputGroups(const BodyInfo &info, int64_t rows);

/// The sizes a columns reduction works on: result elements are (outer, column),
/// `reduced` rows are summed for each.
struct ColumnShape {
  llvm::SmallVector<int64_t> outerDims, reducedDims, columnDims;
  int64_t outer = 1, reduced = 1, columns = 1;
};
ColumnShape columnShape(graph::ReduceOp op);

/// True where the innermost dimension of more than one element is reduced.
bool reducesInnermost(graph::ReduceOp op);

} // namespace dtc::cpu
