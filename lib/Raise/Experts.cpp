// Mixtures of experts whose tokens look up their experts' weights.
//
// Files have, for each choice of each token, the weights themselves:
//
//   w[t,k,f,h] = gather(weights[e,f,h], choices[t,k])        y = contract(w, x[t,k,h]) -> [t,k,f]
//
// of which no program should store w. They become rows of samples that are dispatched to their
// experts, a grouped product, and combine (ExpertOps.td). What happens to each row between two
// such products (activations, biases by expert) moves to where the rows are dispatched.
#include "dtc/Raise/IndexRange.h"
#include "Layers.h"

using namespace mlir;

namespace dtc::raise {

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
    if (isBit(op.getLhs()))
      return failure();
    const std::optional<IndexRange> a = rangeOf(op.getLhs()), b = rangeOf(op.getRhs());
    std::optional<bool> result =
        type && a && b ? decided(op.getPredicate(), *a, *b) : std::nullopt;
    if (!result)
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, DenseElementsAttr::get(type, *result));
    return success();
  }
};

} // namespace

//===-- products ----------------------------------------------------------===//

/// The fewest leading dimensions that have `count` elements together.
static std::optional<size_t> leadingDims(ArrayRef<int64_t> shape, int64_t count) {
  int64_t elements = 1;
  for (auto [dim, size] : llvm::enumerate(shape))
    if ((elements *= size) >= count)
      return elements == count ? std::optional(dim + 1) : std::nullopt;
  return std::nullopt;
}

namespace {

/// A contraction of weights, looked up for each row, with what the rows have.
struct RowProduct {
  graph::GatherOp gather;
  Value weights, other;                          ///< operands of the contraction
  ArrayRef<int64_t> weightIndices, otherIndices; ///< of them
  size_t rowDims = 0; ///< how many leading dimensions of both, and of the result, are the rows
};

} // namespace

/// The contraction seen so, if one operand is looked up. Dimensions of the slices and of the rows
/// may have been split or merged since; those of the rows stand first everywhere.
static std::optional<RowProduct> rowProduct(graph::ContractOp op, bool left) {
  RowProduct found;
  found.weights = left ? op.getLhs() : op.getRhs();
  found.other = left ? op.getRhs() : op.getLhs();
  found.weightIndices = left ? op.getLhsIndices() : op.getRhsIndices();
  found.otherIndices = left ? op.getRhsIndices() : op.getLhsIndices();
  found.gather = graph::withoutReshapes(found.weights).getDefiningOp<graph::GatherOp>();
  if (!found.gather || found.gather.getAxis() != 0 || found.gather.getPaddingRow())
    return std::nullopt;
  ArrayRef<int64_t> shape = graph::shapeOf(found.weights);
  std::optional<size_t> rowDims =
      leadingDims(shape, product(graph::shapeOf(found.gather.getIndices())));
  if (!rowDims)
    return std::nullopt;
  found.rowDims = *rowDims;
  auto startsWithRows = [&](ArrayRef<int64_t> indices) {
    return indices.size() >= *rowDims &&
           indices.take_front(*rowDims) == found.weightIndices.take_front(*rowDims);
  };
  // A row of an embedding isn't larger than what it meets.
  bool isMatrix = llvm::any_of(llvm::zip_equal(found.weightIndices, shape), [&](auto dim) {
    auto [index, size] = dim;
    return size > 1 && !llvm::is_contained(found.otherIndices, index);
  });
  if (!isMatrix || !startsWithRows(found.otherIndices) || !startsWithRows(op.getResultIndices()))
    return std::nullopt;
  return found;
}

/// Samples of a call: as many as the first input has, if the rows are those of so many.
static int64_t samplesOf(Operation *op, ArrayRef<int64_t> rows) {
  auto func = op->getParentOfType<func::FuncOp>();
  rows = rows.drop_while([](int64_t size) { return size == 1; });
  if (rows.empty())
    return 1;
  for (unsigned i = 0; func && i < func.getNumArguments(); ++i) {
    auto role = graph::getArgRole(func, i);
    ArrayRef<int64_t> shape = graph::shapeOf(func.getArgument(i));
    if (role && role.getKind() == graph::RoleKind::Input && !shape.empty())
      return shape[0] > 0 && rows[0] % shape[0] == 0 ? shape[0] : 1;
  }
  return 1;
}

namespace {

struct RaiseGroupedProduct : OpRewritePattern<graph::ContractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::ContractOp op, PatternRewriter &rewriter) const override {
    std::optional<RowProduct> found = rowProduct(op, /*left=*/true);
    if (!found)
      found = rowProduct(op, /*left=*/false);
    // A single index has no dimension that samples could be split from.
    if (!found || graph::shapeOf(found->gather.getIndices()).empty())
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    rewriter.replaceOp(op, build(emit, op, *found));
    return success();
  }

private:
  struct Tensor {
    Shape shape, indices;
  };

  static Value build(Emitter &emit, graph::ContractOp op, const RowProduct &found) {
    graph::GatherOp gather = found.gather;
    ArrayRef<int64_t> chosen = graph::shapeOf(gather.getIndices());
    int64_t samples = samplesOf(op, chosen);
    int64_t experts = graph::shapeOf(gather.getTable())[0];
    Shape rows = {samples, product(chosen) / samples};
    Value choices = reshape(emit, gather.getIndices(), rows);
    // Sample, row, experts, and all other indices from 3 on in the order in which they come. Not
    // those of one element: a sum over them would be stored.
    Shape known;
    auto rest = [&](Value value, ArrayRef<int64_t> indices, Tensor tensor) {
      for (auto [index, size] : llvm::drop_begin(llvm::zip_equal(indices, graph::shapeOf(value)),
                                                 found.rowDims)) {
        if (size == 1)
          continue;
        if (!llvm::is_contained(known, index))
          known.push_back(index);
        tensor.shape.push_back(size);
        tensor.indices.push_back(3 + (llvm::find(known, index) - known.begin()));
      }
      return tensor;
    };
    Tensor table = rest(found.weights, found.weightIndices, {{experts}, {2}});
    Tensor left = rest(found.other, found.otherIndices, {rows, {0, 1}});
    Tensor result = rest(op, op.getResultIndices(), {rows, {0, 1}});
    Value sent = graph::DispatchOp::create(emit, reshape(emit, found.other, left.shape), choices,
                                           experts);
    Value theirs = graph::DispatchOp::create(emit, choices, choices, experts);
    Value product = graph::GroupedContractOp::create(
        emit, op.getType().clone(result.shape), sent,
        reshape(emit, gather.getTable(), table.shape), theirs, left.indices, table.indices,
        result.indices, ArrayRef<int64_t>{0, 1}, 2);
    Value back = graph::CombineOp::create(emit, product, choices, experts);
    return reshape(emit, back, graph::shapeOf(op));
  }
};

//===-- what happens to rows ----------------------------------------------===//

/// What is computed of each row alone between a combine and a dispatch, to be computed where the
/// rows are dispatched: dispatch(f(combine(x))) becomes f(x).
class RowComputation {
public:
  explicit RowComputation(graph::DispatchOp dispatch) : dispatch(dispatch) {}

  /// Whether all that the dispatched rows are computed from is, row by row, what was combined by
  /// the same choices.
  bool find();
  Value rebuild(PatternRewriter &rewriter);

private:
  std::optional<size_t> rowDims(Value value);
  bool isChoices(Value value);
  bool isLeaf(Operation *op);
  bool isAlongRows(Operation *op, Value operand);
  Value rebuildOne(PatternRewriter &rewriter, Operation *op);

  graph::DispatchOp dispatch;
  SmallVector<Operation *> ops; ///< in order
  llvm::DenseMap<Value, Value> there; ///< by value: the same of dispatched rows
};

} // namespace

/// How many leading dimensions of `value` are the rows; nothing where none are.
std::optional<size_t> RowComputation::rowDims(Value value) {
  return leadingDims(graph::shapeOf(value), product(graph::shapeOf(dispatch.getChoices())));
}

bool RowComputation::isChoices(Value value) {
  return graph::withoutReshapes(value) == graph::withoutReshapes(dispatch.getChoices());
}

bool RowComputation::isLeaf(Operation *op) {
  if (auto combine = dyn_cast<graph::CombineOp>(op))
    return combine.getExperts() == dispatch.getExperts() &&
           combine.getChoices().getType() == dispatch.getChoices().getType() &&
           isChoices(combine.getChoices());
  auto gather = dyn_cast<graph::GatherOp>(op);
  return gather && gather.getAxis() == 0 && !gather.getPaddingRow() &&
         isChoices(gather.getIndices());
}

static bool isSplatTerm(Operation *op, Value operand) {
  return actsElementwise(op) && splatValue(operand);
}

/// Whether one op computes rows of its result from the same rows of `operand`, or from what is the
/// same in all rows.
bool RowComputation::isAlongRows(Operation *op, Value operand) {
  std::optional<size_t> rows = rowDims(op->getResult(0));
  if (!rows)
    return false;
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return graph::shapeOf(operand).take_front(*rows) == graph::shapeOf(slice).take_front(*rows);
  return isa<graph::ReshapeOp>(op) ? rowDims(operand).has_value() : actsElementwise(op);
}

/// Without recursion: files may have chains of any length.
bool RowComputation::find() {
  SmallVector<Value> open = {dispatch.getInput()};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != dispatch->getBlock() || op->getNumResults() != 1)
      return false;
    if (!seen.insert(op).second)
      continue;
    ops.push_back(op);
    if (isLeaf(op))
      continue;
    if (op->getNumOperands() == 0)
      return false;
    for (Value operand : op->getOperands()) {
      if (!isAlongRows(op, operand))
        return false;
      if (!isSplatTerm(op, operand))
        open.push_back(operand);
    }
  }
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return true;
}

Value RowComputation::rebuildOne(PatternRewriter &rewriter, Operation *op) {
  Value value = op->getResult(0);
  size_t rows = *rowDims(value);
  Emitter emit(op->getLoc(), rewriter);
  Shape shape(graph::shapeOf(dispatch.getChoices()));
  llvm::append_range(shape, graph::shapeOf(value).drop_front(rows));
  if (auto combine = dyn_cast<graph::CombineOp>(op))
    return reshape(emit, combine.getInput(), shape);
  if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    Value choices = dispatch.getChoices();
    Value theirs = graph::DispatchOp::create(emit, choices, choices, dispatch.getExperts());
    return reshape(emit, raise::gather(emit, gather.getTable(), theirs, 0), shape);
  }
  if (isa<graph::ReshapeOp>(op))
    return reshape(emit, there.at(op->getOperand(0)), shape);
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    Shape offsets(2, 0), strides(2, 1);
    llvm::append_range(offsets, slice.getOffsets().drop_front(rows));
    llvm::append_range(strides, slice.getStrides().drop_front(rows));
    return graph::SliceOp::create(emit, tensorType(value).clone(shape), there.at(slice.getInput()),
                                  offsets, strides);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isSplatTerm(op, operand) ? reshapeSplat(emit, operand, shape)
                                                : there.at(operand));
  return rebuildHere(rewriter, op, operands, shape)->getResult(0);
}

Value RowComputation::rebuild(PatternRewriter &rewriter) {
  for (Operation *op : ops)
    there[op->getResult(0)] = rebuildOne(rewriter, op);
  Emitter emit(dispatch.getLoc(), rewriter);
  return reshape(emit, there.at(dispatch.getInput()), graph::shapeOf(dispatch));
}

namespace {
struct KeepDispatched : OpRewritePattern<graph::DispatchOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::DispatchOp op, PatternRewriter &rewriter) const override {
    RowComputation rows(op);
    if (!rows.find())
      return failure();
    rewriter.replaceOp(op, rows.rebuild(rewriter));
    return success();
  }
};
} // namespace

void addExpertPatterns(RewritePatternSet &patterns) {
  patterns.add<DecideComparison, RaiseGroupedProduct, KeepDispatched>(patterns.getContext());
}

} // namespace dtc::raise
