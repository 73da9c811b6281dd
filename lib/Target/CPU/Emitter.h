// Writes a kernel's body as loops over scalars.
//
// Values are pulled: emit(value, index) gives the scalar of a tensor value at
// an index and asks its operands in turn, down to loads of the kernel's
// arguments. Scopes are the loops being written, outermost first; a scalar that
// depends on outer loops only is written there, before the inner loop, and
// remembered, so that it is computed once whoever asks for it.
#pragma once

#include "dtc/Kernels/ElementTypes.h"
#include "dtc/Kernels/IndexMath.h"
#include "KernelPlan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <functional>
#include <map>
#include <set>

namespace dtc::cpu {

using kernels::ColumnShape;
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
  /// How an operand is read: in which store loops (0 is before the first), whether only at the
  /// element being written there, and whether only in the row being computed.
  struct Reads {
    std::map<int, bool> onlyWrittenElement;
    bool onlyThisRow = true;
  };
  std::map<unsigned, Reads> reads;
  /// Of each result: the store loop that writes it.
  std::map<unsigned, int> writtenIn;
};

class Emitter {
public:
  Emitter(const BodyInfo &info, const KernelPlan &plan, mlir::OpBuilder &builder);

  /// Writes `func.func @name(args, begin, end, scratch)` at the builder's insertion point.
  llvm::FailureOr<mlir::func::FuncOp> emitFunction(llvm::StringRef name);

  Findings findings;

private:
  using Key = std::pair<mlir::Value, std::vector<mlir::AffineExpr>>;
  struct KeyLess {
    bool operator()(const Key &a, const Key &b) const;
  };

  struct Scope {
    mlir::Block *block = nullptr;
    mlir::Operation *before = nullptr; ///< insertion point; null: the block's end
    std::map<Key, mlir::Value, KeyLess> values;
    std::map<Key, mlir::AffineExpr, KeyLess> dynamicIndices;
    llvm::DenseMap<mlir::AffineExpr, mlir::Value> integers;
    llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
    std::optional<LoopId> loop; ///< set for loops that may be split
    unsigned position = 0;
    int64_t extent = 0;
    bool cuttable = false;
    mlir::AffineExpr variable;
    mlir::Attribute accessGroup;
  };
  using Values = llvm::SmallVector<mlir::Value, 2>;
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
  void forEachColumn(const ColumnBlock &block,
                     llvm::function_ref<void(mlir::AffineExpr)> body);
  /// Where a reduction reads a row of a column.
  Index columnSource(graph::ReduceOp op, const ColumnBlock &block, mlir::AffineExpr row,
                     mlir::AffineExpr column);
  void addRows(const ColumnBlock &block, llvm::ArrayRef<mlir::AffineExpr> rows);
  void emitColumnBlock(mlir::AffineExpr item);
  void initializeScatter(const SpecialResult &special, graph::ScatterAddOp op, int64_t width);
  void emitScatter();
  void emitScan();
  void emitCumSum(graph::CumSumOp op);
  void emitTopK(graph::TopKOp op);
  void emitPool();
  void emitPoolPlane(graph::MaxPoolGradOp op, mlir::AffineExpr plane);
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
  Values nestFrom(LoopId id, unsigned position, mlir::AffineExpr linear,
                  mlir::ValueRange initial, const Body &body, bool parallel);
  /// The loop over this call's share of the iterations.
  void mainLoop(const std::function<void(mlir::AffineExpr)> &body, bool parallel = false,
                std::optional<LoopId> id = std::nullopt);

  // Values.
  mlir::Value emit(mlir::Value tensor, const Index &index);
  mlir::Value compute(mlir::Operation *op, const Index &index);
  mlir::Value computed(mlir::Operation *op, const Index &index);
  mlir::Value stashed(const Stash &stash, mlir::Operation *op, const Index &index);
  mlir::Value elementwise(mlir::Operation *op, const Index &index);
  mlir::Value constantElement(mlir::arith::ConstantOp op, const Index &index);
  mlir::Value tableElement(mlir::DenseElementsAttr elements, mlir::AffineExpr linear);
  mlir::Value padded(graph::PadOp op, const Index &index);
  mlir::Value concatenated(graph::ConcatOp op, const Index &index);
  mlir::Value gathered(graph::GatherOp op, const Index &index);
  mlir::Value picked(graph::PickOp op, const Index &index);
  mlir::Value pooled(graph::MaxPoolOp op, const Index &index);
  mlir::Value iota(graph::IotaOp op, const Index &index);
  mlir::Value summed(graph::SumOp op, const Index &index);
  mlir::Value reduced(graph::ReduceOp op, const Index &index);
  Values reduceTogether(llvm::ArrayRef<graph::ReduceOp> ops, const Index &index);
  /// The operand's index of the `element`-th value that a result's element combines.
  Index reductionSource(graph::ReduceOp op, const Index &index, mlir::AffineExpr element);
  mlir::Value select(mlir::Value condition, mlir::Value inside, mlir::Value outside);
  /// A run-time index: an expression that stands for `value`.
  mlir::AffineExpr variableFor(mlir::Value value, Range range);
  /// The value of an index tensor as an index below `size`, and whether it is one.
  std::pair<mlir::AffineExpr, mlir::Value> checkedIndex(mlir::Value tensor, const Index &index,
                                                        int64_t size);
  mlir::Value insideOf(mlir::AffineExpr position, int64_t low, int64_t high);
  mlir::AffineExpr clamped(mlir::AffineExpr position, int64_t low, int64_t high);

  // Reductions.
  mlir::Value identityOf(graph::ReduceKind kind, mlir::Type type);
  mlir::Value combine(graph::ReduceKind kind, mlir::Value a, mlir::Value b, bool reorder);

  // Scalars and memory.
  mlir::Value lower(mlir::AffineExpr expr);
  mlir::Value lowerBinary(mlir::AffineBinaryOpExpr expr);
  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value constantInt(int64_t value);
  mlir::Value constantOf(mlir::Type type, double value);
  mlir::Value address(mlir::Value base, mlir::AffineExpr offset, mlir::Type element);
  mlir::Value load(unsigned argument, const Index &index);
  /// An element of an operand, as an offset.
  struct Place {
    unsigned argument;
    mlir::AffineExpr offset;
  };
  /// Where a value that is only a view of an operand lies.
  std::optional<Place> placeOf(mlir::Value value, const Index &index);
  /// Loads from the last place whose condition holds (the first one has none). The conditions
  /// belong to outer loops, so that the inner one reads one stream. Null if the places do not
  /// move together.
  mlir::Value loadOneOf(llvm::ArrayRef<Place> places, llvm::ArrayRef<mlir::Value> conditions);
  /// The operand of a view op and the index there.
  std::optional<std::pair<mlir::Value, Index>> viewSource(mlir::Operation *op,
                                                          const Index &index);
  /// A result's element, not yet rounded to its type.
  mlir::Value storedValue(unsigned result, const Index &index);
  void storeAt(unsigned result, mlir::AffineExpr offset, mlir::Value value);
  mlir::Value loadScratch(int64_t byteOffset, mlir::AffineExpr element, mlir::Type type);
  void storeScratch(int64_t byteOffset, mlir::AffineExpr element, mlir::Value value);
  template <typename MemoryOp> void annotate(MemoryOp op, unsigned slot);
  void noteRead(unsigned argument, mlir::AffineExpr offset);
  void noteDivisions(mlir::AffineExpr expr);
  void noteCut(mlir::AffineExpr position, int64_t boundary);

  // Scopes.
  int depth() const { return static_cast<int>(scopes.size()) - 1; }
  Scope &scope() { return scopes.back(); }
  void pushScope(mlir::Block *block);
  void popScope();
  /// Hides the scopes inside `depth` as long as it lives.
  struct OuterScopes {
    OuterScopes(Emitter &emitter, int depth);
    ~OuterScopes();
    Emitter &emitter;
    std::vector<Scope> inner;
  };
  void position();

  void fail(mlir::Operation *op, const llvm::Twine &message);
  mlir::Value poison(mlir::Type type);

  const BodyInfo &info;
  const KernelPlan &plan;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  IndexMath math;
  std::vector<Scope> scopes;
  llvm::SmallVector<mlir::Value> variableValues; ///< by dimension position
  llvm::SmallVector<mlir::Value> arguments;      ///< pointers: operands, then results
  llvm::SmallVector<mlir::Attribute> aliasScopes; ///< of arguments, then scratch
  mlir::Value begin, end, scratch;
  bool failed = false;
  unsigned numTables = 0;

  // Of the rows kernel being written.
  mlir::AffineExpr rowVariable;
  mlir::AffineExpr columnNumber; ///< of the loop being written; null outside
  bool storesStashes = false; ///< this loop passes all columns of the row
  std::set<unsigned> stashedOps, pendingStashes;

  // Of the columns kernel being written: where accumulators are read from.
  llvm::DenseMap<mlir::Operation *, int64_t> accumulatorOf; ///< byte offset in scratch
  llvm::SmallVector<graph::ReduceOp> columnReductions;
  llvm::SmallVector<int64_t> columnAccumulators;
  mlir::AffineExpr blockLow, writtenColumn;

  int storeLoop = 0;               ///< number of the store loop being written
  mlir::AffineExpr writtenElement; ///< the element that it writes; null outside
};

} // namespace dtc::cpu
