// Proof that a term of attention scores is the causal mask, or that of a window of the last keys.
#include "Layers.h"
#include "MaskBand.h"

#include "dtc/Raise/IndexRange.h"

#include <limits>

using namespace mlir;

namespace dtc::raise {

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

/// What the elements of a mask say of keys by how far they lie before the query; those after it are
/// of negative distances.
class Distances {
public:
  explicit Distances(bool isCausal) : isCausal(isCausal) {}

  /// False where no window is possible any more.
  bool add(int64_t distance, double element) {
    if (distance < 0)
      return isCausal || hidesKey(element);
    if (element == 0)
      furthestSeen = std::max(furthestSeen, distance);
    else if (hidesKey(element))
      nearestHidden = std::min(nearestHidden, distance);
    return (element == 0 || hidesKey(element)) && furthestSeen < nearestHidden;
  }

  std::optional<int64_t> window() const {
    if (furthestSeen < 0)
      return std::nullopt;
    return nearestHidden == kNone ? 0 : nearestHidden;
  }

private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  bool isCausal;
  int64_t furthestSeen = -1, nearestHidden = kNone;
};

} // namespace

static std::optional<int64_t> windowByExpression(Value term, int64_t queryDim, int64_t keyDim,
                                                 bool isCausal) {
  const int64_t keys = graph::shapeOf(term)[keyDim], offset = keys - graph::shapeOf(term)[queryDim];
  auto band = bandOf(term, queryDim, keyDim);
  if (!band)
    return std::nullopt;
  const int64_t upper = band->upper.value_or(keys);
  if (isCausal ? upper < offset : upper != offset)
    return std::nullopt;
  const int64_t window = band->reach ? *band->reach + offset : keys;
  if (window < 1)
    return std::nullopt;
  return window < keys ? window : 0;
}

static std::optional<int64_t> windowByEvaluation(Value term, int64_t queryDim, int64_t keyDim,
                                                 bool isCausal) {
  Evaluator evaluator;
  Distances distances(isCausal);
  const Shape shape(graph::shapeOf(term));
  const int64_t offset = shape[keyDim] - shape[queryDim];
  Shape index(shape.size(), 0);
  for (int64_t n = 0, count = product(shape); n < count; ++n) {
    const auto element = evaluator.at(term, index);
    if (!element || !distances.add(index[queryDim] + offset - index[keyDim], *element))
      return std::nullopt;
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i])
        break;
      index[i] = 0;
    }
  }
  return distances.window();
}

/// Masks that the file holds may be larger than those that are computed here.
static std::optional<int64_t> windowByConstant(Value term, int64_t queryDim, int64_t keyDim,
                                               bool isCausal) {
  DenseElementsAttr attr;
  if (!matchPattern(term, m_Constant(&attr)) || !attr.getElementType().isF32())
    return std::nullopt;
  Distances distances(isCausal);
  const Shape shape(graph::shapeOf(term));
  const int64_t offset = shape[keyDim] - shape[queryDim];
  auto elements = attr.getValues<float>();
  int64_t position = 0;
  bool fits = true;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    const double element = elements[position++];
    fits = fits && distances.add(index[queryDim] + offset - index[keyDim], element);
  });
  return fits ? distances.window() : std::nullopt;
}

std::optional<int64_t> causalWindow(Value term, int64_t queryDim, int64_t keyDim, bool isCausal) {
  if (graph::shapeOf(term)[keyDim] < graph::shapeOf(term)[queryDim])
    return std::nullopt;
  if (auto window = windowByExpression(term, queryDim, keyDim, isCausal))
    return window;
  // Dimensions along which the term is repeated need no look, nor those of size 1.
  while (true) {
    if (auto broadcast = term.getDefiningOp<graph::BroadcastOp>()) {
      const auto dims = broadcast.getDims();
      const auto *query = llvm::find(dims, queryDim), *key = llvm::find(dims, keyDim);
      if (query == dims.end() || key == dims.end())
        return std::nullopt;
      queryDim = query - dims.begin();
      keyDim = key - dims.begin();
      term = broadcast.getInput();
      continue;
    }
    auto reshape = term.getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      break;
    auto from = graph::shapeOf(reshape.getInput()), to = graph::shapeOf(term);
    const auto query = dimThroughUnits(from, to, queryDim), key = dimThroughUnits(from, to, keyDim);
    if (!query || !key)
      break;
    queryDim = *query;
    keyDim = *key;
    term = reshape.getInput();
  }
  if (auto window = windowByConstant(term, queryDim, keyDim, isCausal))
    return window;
  return product(graph::shapeOf(term)) <= kMaxEvaluated
             ? windowByEvaluation(term, queryDim, keyDim, isCausal)
             : std::nullopt;
}

} // namespace dtc::raise
