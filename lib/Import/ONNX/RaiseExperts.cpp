// Mixtures of experts whose tokens look up their experts' weights.
//
// Files have, for each choice of each token, the weights themselves:
//
//   w[t,k,f,h] = gather(weights[e,f,h], choices[t,k])        y = contract(w, x[t,k,h]) -> [t,k,f]
//
// of which no program should store w. They become rows of samples that are dispatched to their
// experts, a grouped product, and combine (ExpertOps.td). What happens to each row between two
// such products (activations, biases by expert) moves to where the rows are dispatched.
#include "IndexRange.h"
#include "Raise.h"

using namespace mlir;

namespace dtc::import {

//===-- comparisons that ranges decide ------------------------------------===//

static std::optional<bool> decided(arith::CmpIPredicate predicate, IndexRange a, IndexRange b) {
  auto less = [](IndexRange a, IndexRange b) -> std::optional<bool> {
    if (a.high < b.low)
      return true;
    return a.low >= b.high ? std::optional(false) : std::nullopt;
  };
  auto negated = [](std::optional<bool> x) { return x ? std::optional(!*x) : x; };
  bool positive = a.low >= 0 && b.low >= 0;
  switch (predicate) {
  case arith::CmpIPredicate::ult:
    return positive ? less(a, b) : std::nullopt;
  case arith::CmpIPredicate::slt:
    return less(a, b);
  case arith::CmpIPredicate::sgt:
    return less(b, a);
  case arith::CmpIPredicate::sge:
    return negated(less(a, b));
  case arith::CmpIPredicate::sle:
    return negated(less(b, a));
  default:
    return std::nullopt;
  }
}

namespace {

/// Whether an index is negative, whether it is inside a table: exporters guard look-ups whose
/// indices, chosen by top_k, are inside.
struct DecideComparison : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    const std::optional<IndexRange> a = rangeOf(op.getLhs()), b = rangeOf(op.getRhs());
    std::optional<bool> result =
        type && a && b ? decided(op.getPredicate(), *a, *b) : std::nullopt;
    if (!result)
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, DenseElementsAttr::get(type, *result));
    return success();
  }
};

//===-- products ----------------------------------------------------------===//

/// One operand of a contraction: weights, looked up for each row.
struct LookedUp {
  graph::GatherOp gather;
  Shape trailing;        ///< a row's slice, as the contraction has it
  Shape indices;         ///< of the contraction, those of the slice
  Shape rows;            ///< those of the rows
};

} // namespace

/// The look-up behind a contraction's operand. Dimensions of the slice may have been split or
/// merged since; those of the rows stand first.
static std::optional<LookedUp> lookedUp(Value value, ArrayRef<int64_t> indices) {
  ArrayRef<int64_t> shape = graph::shapeOf(value);
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  auto gather = value.getDefiningOp<graph::GatherOp>();
  if (!gather || gather.getAxis() != 0 || gather.getPaddingRow())
    return std::nullopt;
  ArrayRef<int64_t> rows = graph::shapeOf(gather.getIndices());
  size_t count = rows.size();
  if (count == 0 || shape.size() < count || shape.take_front(count) != rows)
    return std::nullopt;
  return LookedUp{gather, Shape(shape.drop_front(count)), Shape(indices.drop_front(count)),
                  Shape(indices.take_front(count))};
}

/// Samples of a call: as many as the first input has, if the rows are those of so many.
static int64_t samplesOf(Operation *op, ArrayRef<int64_t> rows) {
  auto func = op->getParentOfType<func::FuncOp>();
  for (unsigned i = 0; func && i < func.getNumArguments(); ++i) {
    auto role = graph::getArgRole(func, i);
    ArrayRef<int64_t> shape = graph::shapeOf(func.getArgument(i));
    if (role && role.getKind() == graph::RoleKind::Input && !shape.empty())
      return rows[0] % shape[0] == 0 ? shape[0] : 1;
  }
  return 1;
}

static int64_t productOf(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

/// [rows..., rest...] as [samples, rows of a sample, rest...].
static Value bySample(Emitter &emit, Value value, size_t rowDims, int64_t samples) {
  ArrayRef<int64_t> shape = graph::shapeOf(value);
  Shape result = {samples, productOf(shape.take_front(rowDims)) / samples};
  llvm::append_range(result, shape.drop_front(rowDims));
  return reshape(emit, value, result);
}

namespace {

struct RaiseGroupedProduct : OpRewritePattern<graph::ContractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::ContractOp op, PatternRewriter &rewriter) const override {
    auto found = lookedUp(op.getLhs(), op.getLhsIndices());
    bool left = found.has_value();
    if (!found)
      found = lookedUp(op.getRhs(), op.getRhsIndices());
    if (!found)
      return failure();
    Value other = left ? op.getRhs() : op.getLhs();
    ArrayRef<int64_t> otherIndices = left ? op.getRhsIndices() : op.getLhsIndices();
    // Rows stand first in the other operand, too, and in the result.
    size_t count = found->rows.size();
    auto startsWithRows = [&](ArrayRef<int64_t> indices) {
      return indices.size() >= count && indices.take_front(count) == ArrayRef(found->rows);
    };
    if (!startsWithRows(otherIndices) || !startsWithRows(op.getResultIndices()))
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    rewriter.replaceOp(op, build(emit, op, *found, other, otherIndices));
    return success();
  }

private:
  static Value build(Emitter &emit, graph::ContractOp op, const LookedUp &found, Value other,
                     ArrayRef<int64_t> otherIndices) {
    size_t count = found.rows.size();
    graph::GatherOp gather = found.gather;
    int64_t samples = samplesOf(op, graph::shapeOf(gather.getIndices()));
    int64_t experts = graph::shapeOf(gather.getTable())[0];
    Value choices = bySample(emit, gather.getIndices(), count, samples);
    Value rows = bySample(emit, other, count, samples);
    Shape table = {experts};
    llvm::append_range(table, found.trailing);
    // Sample, row, experts, and all other indices from 3 on in the order in which they come.
    Shape known;
    auto renumbered = [&](ArrayRef<int64_t> indices, Shape result) {
      for (int64_t index : indices) {
        if (!llvm::is_contained(known, index))
          known.push_back(index);
        result.push_back(3 + (llvm::find(known, index) - known.begin()));
      }
      return result;
    };
    Shape tableIndices = renumbered(found.indices, {2});
    Shape rowIndices = renumbered(otherIndices.drop_front(count), {0, 1});
    Shape resultIndices = renumbered(op.getResultIndices().drop_front(count), {0, 1});
    Shape shape = {samples, graph::shapeOf(choices)[1]};
    llvm::append_range(shape, graph::shapeOf(op).drop_front(count));
    Value sent = graph::DispatchOp::create(emit, rows, choices, experts);
    Value theirs = graph::DispatchOp::create(emit, choices, choices, experts);
    Value product = graph::GroupedContractOp::create(
        emit, op.getType().clone(shape), sent, reshape(emit, gather.getTable(), table), theirs,
        rowIndices, tableIndices, resultIndices, ArrayRef<int64_t>{0, 1}, 2);
    Value back = graph::CombineOp::create(emit, product, choices, experts);
    return reshape(emit, back, graph::shapeOf(op));
  }
};

//===-- what happens to rows ----------------------------------------------===//

/// Rebuilds what is computed of each row alone where the rows are dispatched:
/// dispatch(f(combine(x))) becomes f(x).
class RowComputation {
public:
  RowComputation(PatternRewriter &rewriter, graph::DispatchOp dispatch)
      : rewriter(rewriter), dispatch(dispatch) {}

  /// Whether `value`, whose leading dimensions are rows, is computed row by row from what was
  /// combined by the same choices.
  bool reaches(Value value);
  Value rebuilt(Value value);

private:
  std::optional<size_t> rowDims(Value value);
  bool isChoices(Value value);
  bool isAlongRows(Operation *op, Value value);

  PatternRewriter &rewriter;
  graph::DispatchOp dispatch;
  llvm::DenseMap<Value, bool> known;
  llvm::DenseMap<Value, Value> done;
};

} // namespace

static Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// How many leading dimensions of `value` are the rows; nothing where none are.
std::optional<size_t> RowComputation::rowDims(Value value) {
  int64_t rows = productOf(graph::shapeOf(dispatch.getChoices())), product = 1;
  for (auto [dim, size] : llvm::enumerate(graph::shapeOf(value)))
    if ((product *= size) >= rows)
      return product == rows ? std::optional(dim + 1) : std::nullopt;
  return std::nullopt;
}

bool RowComputation::isChoices(Value value) {
  return withoutReshapes(value) == withoutReshapes(dispatch.getChoices()) &&
         rowDims(value) == graph::shapeOf(value).size();
}

/// Whether one op computes rows of its result from the same rows of `value`, its operand, or from
/// what is the same in all rows.
bool RowComputation::isAlongRows(Operation *op, Value value) {
  std::optional<size_t> rows = rowDims(op->getResult(0));
  if (!rows)
    return false;
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return graph::shapeOf(value).take_front(*rows) == graph::shapeOf(slice).take_front(*rows);
  return isa<graph::ReshapeOp>(op) ? rowDims(value).has_value() : actsElementwise(op);
}

bool RowComputation::reaches(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  bool result = false;
  if (auto combine = dyn_cast_or_null<graph::CombineOp>(op))
    result = combine.getExperts() == dispatch.getExperts() &&
             combine.getChoices().getType() == dispatch.getChoices().getType() &&
             isChoices(combine.getChoices());
  else if (auto gather = dyn_cast_or_null<graph::GatherOp>(op))
    result = gather.getAxis() == 0 && !gather.getPaddingRow() && isChoices(gather.getIndices());
  else if (op && op->getNumResults() == 1 && op->getNumOperands() > 0)
    result = llvm::all_of(op->getOperands(), [&](Value operand) {
      return isAlongRows(op, operand) && (splatValue(operand) || reaches(operand));
    });
  return known[value] = result;
}

Value RowComputation::rebuilt(Value value) {
  if (Value there = done.lookup(value))
    return there;
  Operation *op = value.getDefiningOp();
  Emitter emit(op->getLoc(), rewriter);
  Shape shape(graph::shapeOf(dispatch.getChoices()));
  llvm::append_range(shape, graph::shapeOf(value).drop_front(*rowDims(value)));
  Value result;
  if (auto combine = dyn_cast<graph::CombineOp>(op)) {
    result = combine.getInput();
  } else if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    Value choices = dispatch.getChoices();
    Value theirs = graph::DispatchOp::create(emit, choices, choices, dispatch.getExperts());
    result = import::gather(emit, gather.getTable(), theirs, 0);
  } else if (isa<graph::ReshapeOp>(op)) {
    result = reshape(emit, rebuilt(op->getOperand(0)), shape);
  } else if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    size_t rows = *rowDims(value);
    Shape offsets(2, 0), strides(2, 1);
    llvm::append_range(offsets, slice.getOffsets().drop_front(rows));
    llvm::append_range(strides, slice.getStrides().drop_front(rows));
    result = graph::SliceOp::create(emit, tensorType(value).clone(shape),
                                    rebuilt(op->getOperand(0)), offsets, strides);
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(splatValue(operand) ? reshapeSplat(emit, operand, shape)
                                             : rebuilt(operand));
    Operation *copy = rewriter.clone(*op);
    rewriter.modifyOpInPlace(copy, [&] {
      copy->setOperands(operands);
      copy->getResult(0).setType(tensorType(value).clone(shape));
    });
    result = copy->getResult(0);
  }
  return done[value] = result;
}

namespace {
struct KeepDispatched : OpRewritePattern<graph::DispatchOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::DispatchOp op, PatternRewriter &rewriter) const override {
    RowComputation rows(rewriter, op);
    if (!rows.reaches(op.getInput()))
      return failure();
    rewriter.replaceOp(op, rows.rebuilt(op.getInput()));
    return success();
  }
};
} // namespace

void addExpertPatterns(RewritePatternSet &patterns) {
  patterns.add<DecideComparison, RaiseGroupedProduct, KeepDispatched>(patterns.getContext());
}

} // namespace dtc::import
