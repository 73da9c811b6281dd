// Writes a kernel's body as loops over scalars: hosts an ElementEvaluator.
//
// The plan says by which loops. The emitter opens one after another, asks the evaluator for the
// scalars within and stores the results. Planning emits too: what it found out on the way
// (`findings`) says which loops should be split.
#pragma once

#include "KernelPlan.h"

#include "dtc/Kernels/KernelWriter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <functional>
#include <map>
#include <set>

namespace dtc::cpu {

using kernels::ColumnShape;
using kernels::ElementPlace;
using kernels::Index;
using kernels::IndexMath;
using kernels::Range;
using kernels::SpecialResult;

/// What emission found out that planning can use.
struct Findings {
  /// Loop (and which of its extents) to split so that its last part has `inner` elements.
  struct Split {
    LoopId loop;
    unsigned position;
    int64_t inner;
  };
  std::optional<Split> split;
  std::optional<std::pair<LoopId, int64_t>> cut;
};

/// Its phases are the loops that store elements.
class LoopEmitter : public kernels::KernelWriter {
public:
  LoopEmitter(const BodyInfo &info, const KernelPlan &plan, mlir::OpBuilder &builder);

  /// Writes `func.func @name(args, begin, end, scratch)` at the builder's insertion point.
  llvm::FailureOr<mlir::func::FuncOp> emitFunction(llvm::StringRef name);

  Findings findings;

private:
  /// A loop that is being written.
  struct Loop {
    std::optional<LoopId> id; ///< set for loops that may be split
    unsigned position = 0;
    int64_t extent = 0;
    bool cuttable = false;
    mlir::AffineExpr variable;
    mlir::Attribute accessGroup;
  };
  using Accumulators = mlir::ValueRange;

  // Kinds of kernels.
  void emitKind();
  void emitPointwise();
  void emitRows();
  void emitRow(mlir::AffineExpr row);
  void emitRowReductions(mlir::AffineExpr row);
  void emitRowOutputs(mlir::AffineExpr row);
  void emitColumns();
  /// A block of columns of a columns kernel.
  struct ColumnBlock {
    ColumnShape shape;
    mlir::AffineExpr outer;     ///< number of the kept dimensions before
    mlir::AffineExpr firstHalf; ///< of the column number, where it was split
    mlir::AffineExpr low;       ///< first column
    mlir::Value lowValue, highValue;
    int64_t inner = 0;  ///< columns in all blocks
    int64_t halves = 0; ///< how often those fit into the columns
  };
  ColumnBlock columnBlock(mlir::AffineExpr item);
  void forEachColumn(const ColumnBlock &block, llvm::function_ref<void(mlir::AffineExpr)> body);
  /// Where a reduction reads a row of a column.
  Index columnSource(graph::ReduceOp op, const ColumnBlock &block, mlir::AffineExpr row,
                     mlir::AffineExpr column);
  void addRows(const ColumnBlock &block, llvm::ArrayRef<mlir::AffineExpr> rows);
  void emitColumnBlock(mlir::AffineExpr item);
  void initializeScatter(const SpecialResult &special, graph::ScatterAddOp op, int64_t width);
  void emitScatter();
  void emitItems();
  /// Computes results at their element `number`, then stores them.
  void writeResults(llvm::ArrayRef<unsigned> results, mlir::AffineExpr number);

  // Loops. Bodies get the variable; loops with accumulators return their final values.
  using Body = std::function<Values(mlir::AffineExpr, Accumulators)>;
  Values loop(Range range, std::optional<LoopId> id, unsigned position, mlir::ValueRange initial,
              const Body &body, bool parallel = false);
  Values loopBetween(mlir::Value low, mlir::Value high, int64_t step, Range range,
                     mlir::ValueRange initial, const Body &body, bool parallel = false);
  /// The nest of a plan's loop; `body` gets the number of the element.
  Values nest(LoopId id, mlir::ValueRange initial, const Body &body, bool parallel = false);
  Values nestFrom(LoopId id, unsigned position, mlir::AffineExpr linear, mlir::ValueRange initial,
                  const Body &body, bool parallel);
  /// The loop over this call's share of the iterations.
  void mainLoop(const std::function<void(mlir::AffineExpr)> &body, bool parallel = false,
                std::optional<LoopId> id = std::nullopt);

  /// The innermost loop being written.
  Loop &loopHere() { return loops[evaluator.blockAt(evaluator.depth())]; }

  // What the evaluator asks of its host.
  mlir::Value load(unsigned argument, mlir::AffineExpr offset) override;
  mlir::Value loadOneOf(llvm::ArrayRef<ElementPlace> places,
                        llvm::ArrayRef<mlir::Value> conditions) override;
  mlir::Value loadConstant(mlir::DenseElementsAttr elements, mlir::AffineExpr offset) override;
  mlir::Value kept(mlir::Operation *op, const Index &index) override;
  void computed(mlir::Operation *op, const Index &index, mlir::Value value) override;
  mlir::Value reduce(graph::ReduceOp op, const Index &index) override;
  kernels::Narrowing narrowing() const override { return kernels::Narrowing::Bits; }
  mlir::Value approximate(mlir::Operation *op, mlir::ValueRange operands) override;
  void noteDivision(mlir::AffineExpr expr) override;
  void noteBoundary(mlir::AffineExpr position, int64_t boundary) override;

  // What items' own loops ask of it.
  Values itemLoop(Range range, mlir::ValueRange initial, const LoopBody &body) override {
    return loop(range, std::nullopt, 0, initial, body);
  }
  void storeResult(mlir::AffineExpr offset, mlir::Value value) override {
    storeAt(0, offset, value);
  }
  void addToResult(mlir::AffineExpr offset, mlir::Value value) override { addTo(offset, value); }

  // Values that are kept.
  const Stash *stashOf(mlir::Operation *op) const;
  /// True if `index` is that of the row's element whose column is being written.
  bool isAtColumn(mlir::Operation *op, const Index &index);
  mlir::Value accumulated(graph::ReduceOp op, const Index &index);
  /// Reductions of the same elements, in one loop.
  Values reduceTogether(llvm::ArrayRef<graph::ReduceOp> ops, const Index &index);
  Values reduceInAnyOrder(llvm::ArrayRef<graph::ReduceOp> ops, const Index &index);
  Values reduceInLanes(llvm::ArrayRef<graph::ReduceOp> ops, const Index &index);
  /// Adds `count` elements of the row, from `first` on, each to a lane of the sums.
  Values addToLanes(llvm::ArrayRef<graph::ReduceOp> ops, const Index &index,
                    llvm::ArrayRef<mlir::Value> arrays, mlir::AffineExpr first, int64_t count,
                    mlir::ValueRange sums);
  mlir::Value sumOfLanes(graph::ReduceOp op, mlir::Value sum, int64_t lanes);
  mlir::Value identityLanes(graph::ReduceOp op, int64_t lanes);
  mlir::Value laneArray(mlir::Type scalar, int64_t lanes);

  // Memory.
  void storeAt(unsigned result, mlir::AffineExpr offset, mlir::Value value);
  /// Adds to an element of the only result.
  void addTo(mlir::AffineExpr offset, mlir::Value value);
  mlir::Value loadScratch(int64_t byteOffset, mlir::AffineExpr element, mlir::Type type);
  void storeScratch(int64_t byteOffset, mlir::AffineExpr element, mlir::Value value);
  template <typename MemoryOp> void annotate(MemoryOp op, unsigned slot);

  const KernelPlan &plan;
  llvm::DenseMap<mlir::Block *, Loop> loops;      ///< by their bodies
  llvm::SmallVector<mlir::Attribute> aliasScopes; ///< of arguments, then scratch
  mlir::func::FuncOp function;
  mlir::Value begin, end, scratch;
  unsigned numTables = 0;

  // Of the rows kernel being written.
  mlir::AffineExpr columnNumber; ///< of the loop being written; null outside
  bool storesStashes = false;    ///< this loop passes all columns of the row
  std::set<unsigned> stashedOps, pendingStashes;

  // Of the columns kernel being written: where accumulators are read from.
  llvm::DenseMap<mlir::Operation *, int64_t> accumulatorOf; ///< byte offset in scratch
  llvm::SmallVector<graph::ReduceOp> columnReductions;
  llvm::SmallVector<int64_t> columnAccumulators;
  mlir::AffineExpr blockLow, writtenColumn;
};

} // namespace dtc::cpu
