// Proof that a term of attention scores is the causal mask.
#include "dtc/Raise/IndexRange.h"
#include "Layers.h"

using namespace mlir;

namespace dtc::raise {

bool hidesKey(double value) { return value <= -1e30; } // -inf and float's lowest number

namespace {

/// Evaluates constant expressions of integers and floats element by element.
class Evaluator {
public:
  /// The element of `value` at `index`; nothing where it is not known.
  std::optional<double> at(Value value, ArrayRef<int64_t> index) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (isa<arith::ConstantOp>(op))
      return constantAt(value, index);
    if (auto iota = dyn_cast<graph::IotaOp>(op))
      return index[iota.getDim()];
    if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
      Shape inner;
      for (int64_t dim : broadcast.getDims())
        inner.push_back(index[dim]);
      return at(broadcast.getInput(), inner);
    }
    if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
      return at(reshape.getInput(), reindex(index, graph::shapeOf(reshape.getResult()),
                                            graph::shapeOf(reshape.getInput())));
    if (auto turn = dyn_cast<graph::TransposeOp>(op)) {
      Shape inner(index.size());
      for (auto [i, dim] : llvm::enumerate(turn.getPerm()))
        inner[dim] = index[i];
      return at(turn.getInput(), inner);
    }
    return elementwise(op, index);
  }

private:
  std::optional<double> constantAt(Value value, ArrayRef<int64_t> index) {
    auto [entry, fresh] = constants.try_emplace(value);
    auto &elements = entry->second;
    if (fresh) {
      DenseElementsAttr attr;
      if (!matchPattern(value, m_Constant(&attr)))
        return std::nullopt;
      if (isa<FloatType>(attr.getElementType()))
        for (const APFloat &element : attr.getValues<APFloat>())
          elements.push_back(element.convertToDouble());
      else
        for (const APInt &element : attr.getValues<APInt>())
          elements.push_back(element.getBitWidth() == 1 ? int64_t(element.getZExtValue())
                                                        : element.getSExtValue());
    }
    int64_t position = 0;
    auto shape = graph::shapeOf(value);
    for (size_t i = 0; i < shape.size(); ++i)
      position = position * shape[i] + index[i];
    return elements[position];
  }

  static Shape reindex(ArrayRef<int64_t> index, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    int64_t position = 0;
    for (size_t i = 0; i < from.size(); ++i)
      position = position * from[i] + index[i];
    Shape result(to.size());
    for (size_t i = to.size(); i-- > 0;) {
      result[i] = position % to[i];
      position /= to[i];
    }
    return result;
  }

  std::optional<double> elementwise(Operation *op, ArrayRef<int64_t> index) {
    SmallVector<double, 3> in;
    for (Value operand : op->getOperands()) {
      auto element = at(operand, index);
      if (!element)
        return std::nullopt;
      in.push_back(*element);
    }
    if (isa<arith::SelectOp>(op))
      return in[0] != 0 ? in[1] : in[2];
    if (isa<arith::AddIOp, arith::AddFOp>(op))
      return in[0] + in[1];
    if (isa<arith::SubIOp, arith::SubFOp>(op))
      return in[0] - in[1];
    if (isa<arith::MulIOp, arith::MulFOp>(op))
      return in[0] * in[1];
    if (isa<arith::AndIOp>(op) && isBit(op->getResult(0)))
      return in[0] != 0 && in[1] != 0;
    if (isa<arith::OrIOp>(op) && isBit(op->getResult(0)))
      return in[0] != 0 || in[1] != 0;
    if (isa<arith::XOrIOp>(op) && isBit(op->getResult(0)))
      return (in[0] != 0) != (in[1] != 0);
    if (isa<arith::SIToFPOp, arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp>(op))
      return in[0];
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      return compared(compare.getPredicate(), in[0], in[1]);
    return std::nullopt;
  }

  static std::optional<double> compared(arith::CmpIPredicate predicate, double a, double b) {
    using P = arith::CmpIPredicate;
    switch (predicate) {
    case P::eq: return a == b;
    case P::ne: return a != b;
    case P::slt: return a < b;
    case P::sle: return a <= b;
    case P::sgt: return a > b;
    case P::sge: return a >= b;
    default: return std::nullopt;
    }
  }

  llvm::DenseMap<Value, std::vector<double>> constants; // looked up only, never iterated
};

/// constant + sum of coefficients[d] * index[d]
struct Affine {
  int64_t constant = 0;
  Shape coefficients;
};

} // namespace

static std::optional<Affine> affineOf(Value value) {
  const size_t rank = graph::shapeOf(value).size();
  Affine result{0, Shape(rank, 0)};
  if (!isa<IntegerType>(elementOf(value)))
    return std::nullopt;
  if (auto splat = splatValue(value)) {
    result.constant = *splat;
    return result;
  }
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<graph::IotaOp>(op)) {
    result.coefficients[iota.getDim()] = 1;
    return result;
  }
  if (auto broadcast = dyn_cast_or_null<graph::BroadcastOp>(op)) {
    auto inner = affineOf(broadcast.getInput());
    if (!inner)
      return std::nullopt;
    result.constant = inner->constant;
    for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
      result.coefficients[dim] = inner->coefficients[i];
    return result;
  }
  const bool adds = isa_and_nonnull<arith::AddIOp>(op);
  const bool subtracts = isa_and_nonnull<arith::SubIOp>(op);
  if (!adds && !subtracts)
    return std::nullopt;
  auto lhs = affineOf(op->getOperand(0)), rhs = affineOf(op->getOperand(1));
  if (!lhs || !rhs)
    return std::nullopt;
  const int64_t sign = adds ? 1 : -1;
  result.constant = lhs->constant + sign * rhs->constant;
  for (size_t i = 0; i < rank; ++i)
    result.coefficients[i] = lhs->coefficients[i] + sign * rhs->coefficients[i];
  return result;
}

/// Whether the condition holds exactly where key <= query + offset; with
/// `negated`, exactly where it does not.
static bool comparesCausally(Value condition, int64_t queryDim, int64_t keyDim, int64_t offset,
                             bool negated) {
  if (auto broadcast = condition.getDefiningOp<graph::BroadcastOp>()) {
    const auto dims = broadcast.getDims();
    const auto *query = llvm::find(dims, queryDim), *key = llvm::find(dims, keyDim);
    return query != dims.end() && key != dims.end() &&
           comparesCausally(broadcast.getInput(), query - dims.begin(), key - dims.begin(),
                            offset, negated);
  }
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return false;
  auto lhs = affineOf(compare.getLhs()), rhs = affineOf(compare.getRhs());
  if (!lhs || !rhs)
    return false;
  // Brought to the form: difference <= 0.
  using P = arith::CmpIPredicate;
  P predicate = compare.getPredicate();
  if (negated)
    predicate = arith::invertPredicate(predicate);
  if (predicate == P::sge || predicate == P::sgt) {
    std::swap(lhs, rhs);
    predicate = predicate == P::sge ? P::sle : P::slt;
  }
  if (predicate != P::sle && predicate != P::slt)
    return false;
  const int64_t constant = lhs->constant - rhs->constant + (predicate == P::slt ? 1 : 0);
  for (size_t i = 0; i < lhs->coefficients.size(); ++i) {
    const int64_t coefficient = lhs->coefficients[i] - rhs->coefficients[i];
    const int64_t wanted = int64_t(i) == keyDim ? 1 : int64_t(i) == queryDim ? -1 : 0;
    if (coefficient != wanted)
      return false;
  }
  return constant == -offset;
}

static bool provenByExpression(Value term, int64_t queryDim, int64_t keyDim, int64_t offset) {
  auto select = term.getDefiningOp<arith::SelectOp>();
  if (!select)
    return false;
  auto then = splatValue(select.getTrueValue()), otherwise = splatValue(select.getFalseValue());
  if (!then || !otherwise)
    return false;
  const bool hiddenWhereTrue = hidesKey(*then) && *otherwise == 0;
  if (!hiddenWhereTrue && !(hidesKey(*otherwise) && *then == 0))
    return false;
  return comparesCausally(select.getCondition(), queryDim, keyDim, offset, hiddenWhereTrue);
}

static bool provenByEvaluation(Value term, int64_t queryDim, int64_t keyDim, int64_t offset) {
  Evaluator evaluator;
  bool causal = true;
  const Shape shape(graph::shapeOf(term));
  Shape index(shape.size(), 0);
  for (int64_t n = 0, count = product(shape); causal && n < count; ++n) {
    const auto element = evaluator.at(term, index);
    const bool visible = index[keyDim] <= index[queryDim] + offset;
    causal = element && (visible ? *element == 0 : hidesKey(*element));
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i])
        break;
      index[i] = 0;
    }
  }
  return causal;
}

/// Masks that the file holds may be larger than those that are computed here.
static bool provenByConstant(Value term, int64_t queryDim, int64_t keyDim, int64_t offset) {
  DenseElementsAttr attr;
  if (!matchPattern(term, m_Constant(&attr)) || !attr.getElementType().isF32())
    return false;
  const Shape shape(graph::shapeOf(term));
  auto elements = attr.getValues<float>();
  int64_t position = 0;
  bool causal = true;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    const double element = elements[position++];
    causal &= index[keyDim] <= index[queryDim] + offset ? element == 0 : hidesKey(element);
  });
  return causal;
}

/// Follows a dimension larger than 1 through a reshape that only adds and removes
/// dimensions of size 1; false where that is not the case.
static bool movesLargeDim(graph::ReshapeOp reshape, int64_t &dim) {
  auto from = graph::shapeOf(reshape.getInput()), to = graph::shapeOf(reshape.getResult());
  if (!differsInUnits(from, to) || to[dim] == 1)
    return false;
  int64_t wanted = llvm::count_if(to.take_front(dim), [](int64_t size) { return size != 1; });
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && wanted-- == 0) {
      dim = i;
      return true;
    }
  return false;
}

bool isCausalMask(Value term, int64_t queryDim, int64_t keyDim) {
  const int64_t offset = graph::shapeOf(term)[keyDim] - graph::shapeOf(term)[queryDim];
  if (offset < 0)
    return false;
  // Dimensions along which the term is repeated need no look, nor those of size 1.
  while (true) {
    if (auto broadcast = term.getDefiningOp<graph::BroadcastOp>()) {
      const auto dims = broadcast.getDims();
      const auto *query = llvm::find(dims, queryDim), *key = llvm::find(dims, keyDim);
      if (query == dims.end() || key == dims.end())
        return false;
      queryDim = query - dims.begin();
      keyDim = key - dims.begin();
      term = broadcast.getInput();
      continue;
    }
    auto reshape = term.getDefiningOp<graph::ReshapeOp>();
    if (!reshape || !movesLargeDim(reshape, queryDim) || !movesLargeDim(reshape, keyDim))
      break;
    term = reshape.getInput();
  }
  return provenByExpression(term, queryDim, keyDim, offset) ||
         provenByConstant(term, queryDim, keyDim, offset) ||
         (product(graph::shapeOf(term)) <= kMaxEvaluated &&
          provenByEvaluation(term, queryDim, keyDim, offset));
}

} // namespace dtc::raise
