// Writes a kernel's body as what one thread of a GPU does: hosts an ElementEvaluator.
//
// The plan says which threads share what. Indices of blocks and threads become variables of the
// evaluator's index arithmetic, as loop variables do on a processor:
//
//     unit = block * 256 + thread          a pointwise kernel of 10,000 elements, units of 4
//     if (unit < 2500)
//       for e in 0..3: result[4 * unit + e] = body at 4 * unit + e
//
// A guard opens a scope of its own, so that nothing within it is computed, or read, before it.
// Straight code for the units of a row leaves the evaluator's memory of scalars intact. What the
// pass of a reduction computed is there for that of the results. A row that fits into registers is
// read once.
#pragma once

#include "KernelPlan.h"

#include "dtc/Kernels/KernelWriter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <functional>
#include <map>

namespace dtc::cuda {

using kernels::ColumnShape;
using kernels::ElementPlace;
using kernels::Index;
using kernels::IndexMath;
using kernels::Range;

/// Elements of a row that a thread keeps in registers, at most.
inline constexpr int64_t kMostInRegisters = 8;

/// The threads of an item meet at the end of phase 0.
class ThreadEmitter : public kernels::KernelWriter {
public:
  ThreadEmitter(const BodyInfo &info, const KernelPlan &plan, mlir::OpBuilder &builder);

  /// Writes the kernel `name`, of a pointer for each operand and result, at the builder's
  /// insertion point.
  llvm::FailureOr<mlir::LLVM::LLVMFuncOp> emitFunction(llvm::StringRef name);

private:
  // Kinds of kernels (ThreadKinds.cpp).
  void emitKind();
  void emitPointwise();
  void emitUnit(mlir::AffineExpr item);

  // Kernels of several pieces (ThreadPieces.cpp).
  void emitPieces();
  void emitTotals();
  /// Of the piece that the block does a part of: its pointers, its first block and its items.
  Values pieceOf(size_t first, size_t last);
  /// Gives the pointers of a piece the first one's places.
  void takePointers(mlir::ValueRange pointers);
  /// Results of each piece; none where all make the same ones.
  unsigned ownResults() const { return info.joins.empty() ? info.results.size() : 0; }
  Values addUpPart(mlir::Value firstBlock, mlir::Value items);
  Values addUnits(mlir::Value first, mlir::Value items, int64_t count, mlir::ValueRange sums);

  // Rows (ThreadRows.cpp), columns, scatter and items.
  void emitRows();
  void emitRow(mlir::AffineExpr row);
  void emitRowReductions(mlir::AffineExpr row, llvm::ArrayRef<graph::ReduceOp> group);
  /// Whether a maximum, then a sum of exponentials of what is below it, can be one pass.
  bool sumsExponentials(llvm::ArrayRef<graph::ReduceOp> maxima,
                        llvm::ArrayRef<graph::ReduceOp> sums) const;
  void emitRowExponentials(mlir::AffineExpr row, graph::ReduceOp maximum, graph::ReduceOp sum);
  mlir::Value rowTerm(graph::ReduceOp op, const Index &index, mlir::AffineExpr column,
                      mlir::Value valid);
  void emitRowResults(mlir::AffineExpr row);
  void emitRowScalars(mlir::AffineExpr row, llvm::ArrayRef<unsigned> results);
  void emitColumns();
  /// What a thread finds of its unit of columns: accumulators of its rows, for each reduction those
  /// of all columns.
  Values columnSums(const ColumnShape &shape, mlir::AffineExpr unit, mlir::Value slice);
  /// Adds up what rows have, all of which is read first.
  Values addColumnRows(mlir::AffineExpr unit, llvm::ArrayRef<mlir::AffineExpr> rows,
                       mlir::Value valid, mlir::ValueRange sums);
  mlir::Value columnTerm(graph::ReduceOp op, mlir::AffineExpr number, mlir::AffineExpr row);
  void keepSums(llvm::ArrayRef<mlir::Value> arrays, mlir::ValueRange sums, mlir::Value slice);
  mlir::Value addUpSlices(graph::ReduceOp op, mlir::Value array, int64_t column);
  // Scatter kernels (ThreadScatter.cpp).
  void emitScatter();
  /// Rows of the table that are the block's.
  struct TableRows {
    mlir::AffineExpr first;
    int64_t count, width;
  };
  /// The place of an index, its row among the block's, whether it names one, and a bit for each
  /// lane's.
  struct IndexMatch {
    mlir::Value place, row, isOwn, ofWarp;
  };
  /// Memory of the block: places and rows of so many matches, and how many each warp has found.
  struct MatchList {
    mlir::Value places, rows, counts;
    int64_t room;
  };
  MatchList matchList(int64_t room);
  void initializeTable(TableRows rows);
  /// Whether rows have to be initialized; null where they always have to be.
  mlir::Value termIsElsewhere();
  /// Of a piece of the indices, those that the thread looks at.
  llvm::SmallVector<IndexMatch> findMatches(graph::ScatterAddOp op, TableRows rows,
                                            mlir::AffineExpr first);
  /// Lists what all threads have found, in its order, behind the `listed` ones; how many there are.
  mlir::Value listMatches(llvm::ArrayRef<IndexMatch> matches, const MatchList &list,
                          mlir::Value listed);
  /// Adds what the block finds among all indices.
  void addIndices(graph::ScatterAddOp op, TableRows rows);
  void addMatches(graph::ScatterAddOp op, TableRows rows, const MatchList &list, mlir::Value total);
  /// Adds some matches to their rows, all of which are read first.
  void addTogether(graph::ScatterAddOp op, TableRows rows, llvm::ArrayRef<IndexMatch> matches);
  /// The thread's columns, some at a time.
  void forColumns(int64_t width, llvm::function_ref<void(llvm::ArrayRef<mlir::AffineExpr>)> body);
  // Kernels that sort indices, and what scatter kernels find there (ThreadBuckets.cpp).
  void emitBuckets();
  /// An index of a thread: its place in the part, which may be too far behind (else null), its
  /// bucket, what is stored of it, and how many are before it of its warp and bucket.
  struct BucketKey {
    mlir::Value place, hasRoom, bucket, entry, rank;
  };
  llvm::SmallVector<BucketKey> readKeys(graph::BucketIndicesOp op, mlir::AffineExpr number);
  void rankKeys(llvm::MutableArrayRef<BucketKey> keys, mlir::Value counters);
  /// The place of a bucket's counter of this warp.
  mlir::Value counterOf(mlir::Value bucket);
  void addUpCounters(mlir::Value counters, int64_t count);
  /// Adds what is in the block's bucket.
  void addBuckets(graph::ScatterAddOp op, TableRows rows, mlir::AffineExpr block);
  /// Memory of the block, for `count` parts at once: entries of the bucket before each, and what is
  /// added to an entry's number for its place in the part.
  struct BucketParts {
    int64_t count;
    mlir::Value before, begin, ofWarps;
  };
  mlir::Value findInParts(graph::ScatterAddOp op, mlir::AffineExpr block, mlir::AffineExpr first,
                          const BucketParts &parts);
  mlir::Value partOfEntry(mlir::Value entry, const BucketParts &parts);
  void listEntry(graph::ScatterAddOp op, mlir::AffineExpr first, const BucketParts &parts,
                 mlir::AffineExpr entry, mlir::AffineExpr place, const MatchList &list);
  /// Sums of what threads before this one have, and of what all have.
  struct Sums {
    mlir::Value before, all;
  };
  /// Adds what warps have to sums.
  Sums sumsOverWarps(mlir::Value ofWarps, Sums sums);
  Sums sumsOverThreads(mlir::Value own, mlir::Value ofWarps);
  void emitItems();
  void emitProducts();

  // Columns of a row, shared by its lanes.
  /// A unit of columns: the first one, how many, and whether the thread has it (null: it does).
  struct ColumnUnit {
    mlir::AffineExpr first;
    int64_t width;
    mlir::Value valid = {};
  };
  Values rowTerms(graph::ReduceOp op, const Index &index, llvm::ArrayRef<ColumnUnit> units);
  mlir::Value addUpTerms(graph::ReduceOp op, mlir::Value sum, mlir::ValueRange terms);
  int64_t unitOf(int64_t columns) const { return columns % plan.unit == 0 ? plan.unit : 1; }
  bool staysInRegisters(int64_t columns) const;
  /// The thread's units where they are few enough for straight code; each is made once.
  llvm::ArrayRef<ColumnUnit> unitsOf(int64_t columns);
  /// Calls `body` for the units of a row of so many columns that are the thread's: one at a time
  /// where they stay in registers, else some.
  using UnitsBody = llvm::function_ref<Values(llvm::ArrayRef<ColumnUnit>, mlir::ValueRange)>;
  Values forEachUnit(int64_t columns, mlir::ValueRange initial, UnitsBody body);
  /// The columns of a row that are in no whole access, one a thread.
  Values forEachRest(int64_t columns, int64_t whole, mlir::ValueRange initial, UnitsBody body);
  /// What all lanes of a row have together, in every lane.
  Values acrossLanes(llvm::ArrayRef<graph::ReduceOp> ops, Values values);
  /// Lets no lane write before all have read.
  void meetBeforeWriting();

  // Numbers of 32 bits.
  mlir::Value integer(int64_t value);
  mlir::Value plus(mlir::Value a, mlir::Value b);
  mlir::Value times(mlir::Value a, int64_t factor);
  mlir::Value wide(mlir::Value number);
  mlir::Value narrow(mlir::Value number);
  mlir::Value is(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);

  // Control.
  void when(mlir::Value condition, llvm::function_ref<void()> body);
  /// Calls `body` with the group's item, where it has one.
  void withItem(mlir::Value item, llvm::function_ref<void(mlir::AffineExpr)> body);
  /// The number of a group of threads: `perBlock` a block, `number` within its own.
  mlir::Value groupNumber(int64_t perBlock, mlir::Value number);
  mlir::Value isBelow(mlir::Value number, int64_t bound);
  /// Quotient and remainder of a thread's number.
  mlir::Value threadOver(int64_t divisor);
  mlir::Value threadModulo(int64_t divisor);

  // What the evaluator asks of its host.
  mlir::Value load(unsigned argument, mlir::AffineExpr offset) override;
  mlir::Value loadOneOf(llvm::ArrayRef<ElementPlace>, llvm::ArrayRef<mlir::Value>) override {
    return {};
  }
  mlir::Value loadConstant(mlir::DenseElementsAttr elements, mlir::AffineExpr offset) override;
  mlir::Value kept(mlir::Operation *op, const Index &index) override;
  void computed(mlir::Operation *, const Index &, mlir::Value) override {}
  mlir::Value reduce(graph::ReduceOp op, const Index &index) override;
  kernels::Narrowing narrowing() const override { return kernels::Narrowing::Instruction; }
  mlir::Value approximate(mlir::Operation *op, mlir::ValueRange operands) override;
  void noteDivision(mlir::AffineExpr) override {}
  void noteBoundary(mlir::AffineExpr, int64_t) override {}

  // What items' own loops ask of it.
  Values itemLoop(Range range, mlir::ValueRange initial, const LoopBody &body) override;
  void storeResult(mlir::AffineExpr offset, mlir::Value value) override {
    storeAt(0, offset, value);
  }
  void addToResult(mlir::AffineExpr offset, mlir::Value value) override;

  // Memory (ThreadMemory.cpp).
  void storeAt(unsigned result, mlir::AffineExpr offset, mlir::Value value);
  /// An element of an operand, out of the whole access that it lies in. Null where units aren't
  /// accesses, or the element isn't known to have a place within one.
  mlir::Value elementOfAccess(unsigned argument, mlir::AffineExpr offset);
  /// The access of `width` elements that one lies in: its first element, and the one's place. A
  /// null expression where that isn't known.
  std::pair<mlir::AffineExpr, int64_t> accessOf(mlir::Value buffer, mlir::AffineExpr offset,
                                                int64_t width);
  /// Stores whole units of rows that begin anywhere by accesses; false where it can't.
  bool storeShifted(unsigned result, llvm::ArrayRef<mlir::AffineExpr> numbers,
                    mlir::ValueRange values);
  // Long rows that are kept (KeptRows.cpp).
  void keepUnits();
  mlir::Value loadAccess(unsigned argument, mlir::AffineExpr first, mlir::VectorType type);
  mlir::AffineExpr placeInRow(mlir::AffineExpr first, int64_t width);
  mlir::Value keptAddress(const KernelPlan::KeptOperand &kept, mlir::AffineExpr column,
                          mlir::Type element);
  /// Computes results at some of their elements, then stores them.
  void writeResults(llvm::ArrayRef<unsigned> results, llvm::ArrayRef<mlir::AffineExpr> numbers);
  void setArgumentAttributes();
  /// What a pointer of the function points to, and the bytes that it may be taken to be aligned to.
  mlir::Value bufferOf(unsigned number) const;
  int64_t alignmentOf(unsigned number) const;
  /// Of an access to an element of `size` bytes, as far as LLVM doesn't find it out by itself.
  int64_t alignmentOfAccess(unsigned number, mlir::AffineExpr offset, int64_t size) const;
  /// Memory of the block: an array of so many elements.
  mlir::Value sharedArray(mlir::Type element, int64_t count);
  mlir::Value loadShared(mlir::Value array, mlir::Value index, mlir::Type element);
  void storeShared(mlir::Value array, mlir::Value index, mlir::Value value);

  const KernelPlan &plan;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value block, thread;                         ///< their numbers, as i32
  llvm::DenseMap<unsigned, int64_t> chosenAlignment; ///< of pointers that are one of several
  /// Vectors that were loaded, by operand and first element.
  llvm::DenseMap<std::pair<unsigned, mlir::AffineExpr>, mlir::Value> loadedAccesses;
  unsigned numGlobals = 0;
  bool hasHalves; ///< operands of half precision, beside which coarse functions are exact enough

  // Of the rows kernel being written.
  mlir::AffineExpr laneVariable;
  mlir::Value lane;                                       ///< as i64
  std::map<int64_t, llvm::SmallVector<ColumnUnit>> units; ///< by columns
  llvm::ArrayRef<ColumnUnit> openUnits;                   ///< of a long row, being computed
  int64_t openColumns = 0;
  mlir::AffineExpr columnsAhead; ///< of the row's first whole access; 0 unless rows are shifted
  bool isFirstPass = true;
  mlir::LLVM::GlobalOp keptRows;

  // Of the columns kernel being written: reductions, and what became of them at the columns that
  // are written.
  llvm::SmallVector<graph::ReduceOp> columnReductions;
  llvm::DenseMap<mlir::Operation *, Values> columnResults;
  llvm::SmallVector<mlir::AffineExpr> writtenColumns;
};

} // namespace dtc::cuda
