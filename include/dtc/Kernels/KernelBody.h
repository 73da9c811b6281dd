// What the body of a kernel computes. That decides its kind, and a target how it is run.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

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
  Scan,      ///< one cumsum or top_k
  Pool,      ///< one max_pool_grad
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

/// True for a reduction of so few elements that it may be written out inside a pointwise kernel.
bool isSmall(graph::ReduceOp op);

/// True where the innermost dimension of more than one element is reduced.
bool reducesInnermost(graph::ReduceOp op);

} // namespace dtc::kernels
