// The scalar of a kernel's value at an index, written wherever its host asks for it.
//
// Values are pulled. emit(value, index) gives the scalar of a tensor value at an index. It asks the
// value's operands in turn, down to loads of the kernel's arguments. For
//
//     %0 = dtc.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64xf32>
//     %1 = arith.addf %x, %0 : tensor<8x64xf32>
//
// emit(%1, [i, j]) asks for %x at [i, j] and %0 at [i, j], which is %bias at [j], and adds them.
//
// The evaluator knows no loops. Its host writes them (a loop nest on a processor, the threads of a
// GPU) and opens a scope for each, outermost first. A scalar that depends on outer loops only is
// written there, before the inner loop, and remembered. So it is computed once, whoever asks for
// it. With i the outer loop, what depends on i alone stands before the loop over j.
#pragma once

#include "dtc/Kernels/ElementTypes.h"
#include "dtc/Kernels/IndexMath.h"
#include "dtc/Kernels/KernelBody.h"

#include <map>
#include <optional>
#include <utility>

namespace dtc::kernels {

/// An element of an operand, as an offset from its start.
struct ElementPlace {
  unsigned argument;
  mlir::AffineExpr offset;
};

/// What writes the kernel around the scalars, and knows where its data lies.
class ElementHost {
public:
  virtual ~ElementHost() = default;

  // Memory. Scalars are in the compute type (ElementTypes.h).
  virtual mlir::Value load(unsigned argument, mlir::AffineExpr offset) = 0;
  /// Loads from the last place whose condition holds (the first one has none). The conditions
  /// belong to outer scopes, so that the inner one reads one stream. Null where it can't.
  virtual mlir::Value loadOneOf(llvm::ArrayRef<ElementPlace> places,
                                llvm::ArrayRef<mlir::Value> conditions) = 0;
  /// An element of a constant that isn't the same everywhere.
  virtual mlir::Value loadConstant(mlir::DenseElementsAttr elements, mlir::AffineExpr offset) = 0;

  // Values that the host has: in scratch memory, as accumulators.
  /// The value of `op` at an index; null where it has to be computed.
  virtual mlir::Value kept(mlir::Operation *op, const Index &index) = 0;
  /// Told of what was computed instead, so that it may be kept for another time.
  virtual void computed(mlir::Operation *op, const Index &index, mlir::Value value) = 0;

  /// A reduction where nothing is kept of it: a loop, or ElementEvaluator::writtenOut.
  virtual mlir::Value reduce(graph::ReduceOp op, const Index &index) = 0;

  virtual Narrowing narrowing() const = 0;
  /// The host's own way to compute an elementary function; null where it is to stay an op.
  virtual mlir::Value approximate(mlir::Operation *op, mlir::ValueRange operands) = 0;

  // Notes, from which a host may learn how its loops should be divided.
  /// The number of `expr` is written, which has a division.
  virtual void noteDivision(mlir::AffineExpr expr) = 0;
  /// What is computed changes where `position` reaches `boundary`.
  virtual void noteBoundary(mlir::AffineExpr position, int64_t boundary) = 0;
};

class ElementEvaluator {
public:
  ElementEvaluator(const BodyInfo &info, mlir::OpBuilder &builder, ElementHost &host);

  IndexMath math;

  // Values.
  mlir::Value emit(mlir::Value tensor, const Index &index);
  /// What is to be stored of a result: not yet rounded to its type, as storing rounds by itself.
  mlir::Value emitStored(mlir::Value result, const Index &index);
  /// A reduction of few elements, without a loop.
  mlir::Value writtenOut(graph::ReduceOp op, const Index &index);
  /// The operand's index of the `element`-th value that a result's element combines.
  Index reductionSource(graph::ReduceOp op, const Index &index, mlir::AffineExpr element);
  /// Gives `value` whenever the scalar is asked for inside the current scope.
  void remember(mlir::Value tensor, const Index &index, mlir::Value value);

  mlir::Value identityOf(graph::ReduceKind kind, mlir::Type type);
  /// Nothing is contracted or reordered: a sum must not depend on what else its kernel computes.
  mlir::Value combine(graph::ReduceKind kind, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value inside, mlir::Value outside);

  // Indices.
  /// The number that an index expression stands for.
  mlir::Value lower(mlir::AffineExpr expr);
  /// A variable of the current scope: an expression that stands for `value`.
  mlir::AffineExpr variableFor(mlir::Value value, Range range);
  /// The value of an index tensor as an index below `size`, and whether it is one.
  std::pair<mlir::AffineExpr, mlir::Value> checkedIndex(mlir::Value tensor, const Index &index,
                                                        int64_t size);
  mlir::Value insideOf(mlir::AffineExpr position, int64_t low, int64_t high);
  mlir::AffineExpr clamped(mlir::AffineExpr position, int64_t low, int64_t high);

  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value constantInt(int64_t value);
  mlir::Value constantOf(mlir::Type type, double value);

  // Scopes.
  void pushScope(mlir::Block *block);
  void popScope();
  /// Of the innermost scope; 0 is the outermost.
  int depth() const { return static_cast<int>(scopes.size()) - 1; }
  mlir::Block *blockAt(int depth) const { return scopes[depth].block; }
  /// Sets the builder to where the innermost scope goes on.
  void position();
  /// Where the innermost scope goes on: before an op of its block, or at its end if null.
  mlir::Operation *continueBefore(mlir::Operation *op) {
    return std::exchange(scopes.back().before, op);
  }
  /// Hides the scopes inside `depth` as long as it lives.
  class OuterScopes;

  // Errors.
  void fail(mlir::Operation *op, const llvm::Twine &message);
  bool hasFailed() const { return failed; }

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
  };
  Scope &scope() { return scopes.back(); }

  /// What an op gives: what the host has of it, or computed.
  mlir::Value emitOf(mlir::Operation *op, const Index &index);
  mlir::Value compute(mlir::Operation *op, const Index &index);
  mlir::Value elementwise(mlir::Operation *op, const Index &index);
  /// A computed value as it would be read from memory. What a kernel gives must not depend on
  /// which of its values are stored on the way.
  mlir::Value inItsType(mlir::Operation *op, mlir::Value value);
  mlir::Value constantElement(mlir::arith::ConstantOp op, const Index &index);
  mlir::Value padded(graph::PadOp op, const Index &index);
  mlir::Value concatenated(graph::ConcatOp op, const Index &index);
  mlir::Value gathered(graph::GatherOp op, const Index &index);
  mlir::Value picked(graph::PickOp op, const Index &index);
  mlir::Value pooled(graph::MaxPoolOp op, const Index &index);
  mlir::Value iota(graph::IotaOp op, const Index &index);
  mlir::Value summed(graph::SumOp op, const Index &index);
  /// The operand of a view op and the index there.
  std::optional<std::pair<mlir::Value, Index>> viewSource(mlir::Operation *op, const Index &index);
  /// Where a value that is only a view of an operand lies.
  std::optional<ElementPlace> placeOf(mlir::Value value, const Index &index);
  mlir::Value lowerBinary(mlir::AffineBinaryOpExpr expr);
  /// Stands for a value after an error.
  mlir::Value poison(mlir::Type type) { return constantOf(type, 0); }

  const BodyInfo &info;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  ElementHost &host;
  std::vector<Scope> scopes;
  llvm::SmallVector<mlir::Value> variableValues; ///< by dimension position
  mlir::Operation *unrounded = nullptr;          ///< storing its value rounds it
  bool failed = false;
};

class ElementEvaluator::OuterScopes {
public:
  OuterScopes(ElementEvaluator &evaluator, int depth);
  ~OuterScopes();

private:
  ElementEvaluator &evaluator;
  std::vector<Scope> inner;
};

} // namespace dtc::kernels
