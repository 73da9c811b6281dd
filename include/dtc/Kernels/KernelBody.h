// What the body of a kernel computes. That decides its kind, and a target how it is run.
#pragma once

#include "dtc/Dialect/Exec/Joins.h"

#include <optional>

namespace dtc::kernels {

/// Elements of a tensor, or of an op's first result.
int64_t elementsOf(mlir::Value value);
int64_t elementsOf(mlir::Operation *op);

/// Whether an op is computed by loops of its own (KernelOpInterface).
bool hasOwnLoops(mlir::Operation *op);

enum class KernelKind {
  Pointwise, ///< every result element on its own
  Rows,      ///< reductions that leave one value a row: softmax, norms
  Columns,   ///< reductions over rows that keep the columns: bias gradients
  Scatter,   ///< one scatter_add
  Buckets,   ///< one bucket_indices
  Scan,      ///< one cumsum or top_k
  Pool,      ///< one max_pool_grad
  Products,  ///< one exec.grouped_matmul
};

/// What planning needs to know about a body's ops, by their index. Of a kernel of several pieces it
/// knows the first one.
class BodyInfo {
public:
  explicit BodyInfo(mlir::Block &body);

  mlir::Block &body;
  int64_t pieces = 1;
  unsigned ownArguments = 0; ///< of each piece; what follows those of all is shared
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> results;   ///< yielded; of a kernel that joins them, all
  llvm::SmallVector<graph::ConcatOp> joins; ///< exec::joinsOf
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
};

/// The kind of a body; refused with a diagnostic where it mixes what no kind allows.
llvm::FailureOr<KernelKind> classify(const BodyInfo &info);

/// What a piece of a kernel adds up for the result that `join` makes:
///
///     %2 = dtc.pad %term low [0] ...     to whole parts
///     %3 = dtc.reshape %2                parts x elements
///     %4 = dtc.reduce sum %3 [1]         one sum a part
struct PartialSum {
  graph::ReduceOp reduce;
  mlir::Value term;        ///< of one dimension
  int64_t parts, elements; ///< of a part
};
/// None where the piece does anything else.
std::optional<PartialSum> partialSum(graph::ConcatOp join, int64_t piece);

/// The op that makes a special kernel's result: it, or an addition to it of other terms.
struct SpecialResult {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<mlir::Value> terms; ///< of a scatter_add
};
SpecialResult specialResult(const BodyInfo &info);

/// True if a pointwise body does the same to every element, whatever the shape.
bool isFlat(const BodyInfo &info);

/// True if each piece of a body that joins partial sums adds up the same of each element.
bool addsUpFlat(const BodyInfo &info);

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

/// True for a reduction of so few elements that it may be written out inside a pointwise kernel.
bool isSmall(graph::ReduceOp op);

/// True where the innermost dimension of more than one element is reduced.
bool reducesInnermost(graph::ReduceOp op);

} // namespace dtc::kernels
