#include "AttentionWindow.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::planbridge {

namespace {

/// What runs along a dimension of a tensor of the mask.
enum class Along { Nothing, Queries, Keys };
using Places = SmallVector<Along>;

/// query * i + key * j + constant
struct Affine {
  int64_t query = 0, key = 0, constant = 0;
};

/// Keys that are seen: j <= i + upper and j > i - reach.
struct Band {
  std::optional<int64_t> upper, reach;
};

} // namespace

static std::optional<double> splatOf(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return elements.getElementType().isIntOrIndex()
             ? std::optional(double(elements.getSplatValue<APInt>().getSExtValue()))
             : std::nullopt;
}

/// Goes from a value to what it only repeats, casts or has with other dimensions of size 1.
static Value origin(Value value, Places &places) {
  while (Operation *op = value.getDefiningOp()) {
    Places inner;
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      for (int64_t dim : broadcast.getDims())
        inner.push_back(places[dim]);
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      SmallVector<std::pair<int64_t, Along>> large;
      for (auto [size, along] : llvm::zip_equal(shapeOf(reshape), places))
        if (size != 1)
          large.emplace_back(size, along);
      for (int64_t size : shapeOf(reshape.getInput())) {
        bool next = size != 1 && !large.empty() && large.front().first == size;
        if (size != 1 && !next)
          return value;
        inner.push_back(next ? large.front().second : Along::Nothing);
        if (next)
          large.erase(large.begin());
      }
      if (!large.empty())
        return value;
    } else if (isa<arith::TruncFOp, arith::ExtFOp>(op)) {
      inner = places;
    } else {
      return value;
    }
    places = std::move(inner);
    value = op->getOperand(0);
  }
  return value;
}

static std::optional<Affine> affineOf(Value value, Places places) {
  value = origin(value, places);
  if (std::optional<double> constant = splatOf(value))
    return Affine{0, 0, static_cast<int64_t>(*constant)};
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<IotaOp>(op)) {
    Along along = places[iota.getDim()];
    return Affine{along == Along::Queries, along == Along::Keys, 0};
  }
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op))
    return std::nullopt;
  auto a = affineOf(op->getOperand(0), places), b = affineOf(op->getOperand(1), places);
  if (!a || !b)
    return std::nullopt;
  int64_t sign = isa<arith::AddIOp>(op) ? 1 : -1;
  return Affine{a->query + sign * b->query, a->key + sign * b->key,
                a->constant + sign * b->constant};
}

/// One condition of those that must hold where a key is seen.
static bool addCondition(arith::CmpIOp compare, const Places &places, Band &band) {
  auto a = affineOf(compare.getLhs(), places), b = affineOf(compare.getRhs(), places);
  using P = arith::CmpIPredicate;
  P predicate = compare.getPredicate();
  if (!a || !b)
    return false;
  if (predicate == P::sgt || predicate == P::sge) {
    std::swap(a, b);
    predicate = predicate == P::sgt ? P::slt : P::sle;
  }
  if (predicate != P::slt && predicate != P::sle)
    return false;
  // a - b + constant <= 0
  int64_t query = a->query - b->query, key = a->key - b->key;
  int64_t constant = a->constant - b->constant + (predicate == P::slt);
  std::optional<int64_t> &side = key == 1 ? band.upper : band.reach;
  if (query != -key || (key != 1 && key != -1) || side)
    return false;
  side = key == 1 ? -constant : 1 - constant; // j <= i - constant; j >= i + constant
  return true;
}

static bool addConditions(Value condition, Places places, Band &band) {
  condition = origin(condition, places);
  if (auto both = condition.getDefiningOp<arith::AndIOp>())
    return addConditions(both.getLhs(), places, band) &&
           addConditions(both.getRhs(), places, band);
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  return compare && addCondition(compare, places, band);
}

int64_t windowOf(Operation *op) {
  Value bias;
  if (auto attention = dyn_cast<AttentionOp>(op))
    bias = attention.getBias();
  else if (auto gradient = dyn_cast<AttentionGradOp>(op))
    bias = gradient.getBias();
  if (!bias || shapeOf(bias)[2] != shapeOf(bias)[3])
    return 0;
  Places places = {Along::Nothing, Along::Nothing, Along::Queries, Along::Keys};
  auto select = origin(bias, places).getDefiningOp<arith::SelectOp>();
  if (!select)
    return 0;
  auto seen = splatOf(select.getTrueValue()), hidden = splatOf(select.getFalseValue());
  Band band;
  constexpr double least = -1e30; // float's lowest number or infinity
  bool isMask = seen && hidden && *seen == 0 && *hidden <= least &&
                addConditions(select.getCondition(), places, band);
  return isMask && band.upper == 0 && band.reach.value_or(0) > 0 ? *band.reach : 0;
}

} // namespace dtc::planbridge
