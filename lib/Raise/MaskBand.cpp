#include "MaskBand.h"

#include "Reshapes.h"

#include "dtc/Raise/IndexRange.h"

#include <cmath>

using namespace mlir;

namespace dtc::raise {
namespace {

/// What runs along a dimension of a tensor of the mask.
enum class Along { Nothing, Queries, Keys };
using Places = SmallVector<Along>;

/// query * i + key * j + constant
struct Affine {
  int64_t query = 0, key = 0, constant = 0;
};

/// Narrows a band by the conditions of a mask. Each function is false where one isn't understood.
class BandFinder {
public:
  bool addMask(Value term, Places places);
  const MaskBand &found() const { return band; }

private:
  bool addConditions(Value condition, Places places, bool isNegated);
  bool addComparison(arith::CmpIOp compare, const Places &places, bool isNegated);

  MaskBand band;
};

} // namespace

/// The places of what a reshape gives other dimensions of size 1.
static std::optional<Places> placesBefore(graph::ReshapeOp reshape, const Places &places) {
  if (!differsInUnits(graph::shapeOf(reshape.getInput()), graph::shapeOf(reshape.getResult())))
    return std::nullopt;
  Places large, inner;
  for (auto [size, along] : llvm::zip_equal(graph::shapeOf(reshape.getResult()), places))
    if (size != 1)
      large.push_back(along);
  size_t next = 0;
  for (int64_t size : graph::shapeOf(reshape.getInput()))
    inner.push_back(size == 1 ? Along::Nothing : large[next++]);
  return inner;
}

/// Goes from a value to what it only repeats, has with other dimensions of size 1, or casts. In any
/// type 0 stays 0, and numbers that hide a key still do.
static Value origin(Value value, Places &places) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
      Places inner;
      for (int64_t dim : broadcast.getDims())
        inner.push_back(places[dim]);
      places = std::move(inner);
    } else if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
      auto inner = placesBefore(reshape, places);
      if (!inner)
        return value;
      places = std::move(*inner);
    } else if (!isa<arith::TruncFOp, arith::ExtFOp, arith::ExtSIOp>(op) ||
               isBit(op->getOperand(0))) {
      return value;
    }
    value = op->getOperand(0);
  }
  return value;
}

static std::optional<Affine> affineOf(Value value, Places places) {
  value = origin(value, places);
  if (!isa<IntegerType>(elementOf(value)) || isBit(value))
    return std::nullopt;
  if (auto splat = splatValue(value))
    return Affine{0, 0, static_cast<int64_t>(*splat)};
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<graph::IotaOp>(op)) {
    Along along = places[iota.getDim()];
    if (along == Along::Nothing)
      return std::nullopt;
    return Affine{along == Along::Queries, along == Along::Keys, 0};
  }
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op))
    return std::nullopt;
  auto a = affineOf(op->getOperand(0), places), b = affineOf(op->getOperand(1), places);
  if (!a || !b)
    return std::nullopt;
  const int64_t sign = isa<arith::AddIOp>(op) ? 1 : -1;
  return Affine{a->query + sign * b->query, a->key + sign * b->key,
                a->constant + sign * b->constant};
}

static void narrow(std::optional<int64_t> &side, int64_t bound) {
  side = side ? std::min(*side, bound) : bound;
}

bool BandFinder::addComparison(arith::CmpIOp compare, const Places &places, bool isNegated) {
  auto a = affineOf(compare.getLhs(), places), b = affineOf(compare.getRhs(), places);
  using P = arith::CmpIPredicate;
  P predicate = compare.getPredicate();
  if (isNegated)
    predicate = arith::invertPredicate(predicate);
  if (!a || !b)
    return false;
  if (predicate == P::sgt || predicate == P::sge) {
    std::swap(a, b);
    predicate = predicate == P::sgt ? P::slt : P::sle;
  }
  if (predicate != P::slt && predicate != P::sle)
    return false;
  // query * i + key * j + constant <= 0
  const int64_t query = a->query - b->query, key = a->key - b->key;
  const int64_t constant = a->constant - b->constant + (predicate == P::slt ? 1 : 0);
  if (query == 0 && key == 0)
    return constant <= 0;
  if (query != -key || std::abs(key) != 1)
    return false;
  if (key == 1)
    narrow(band.upper, -constant); // j <= i - constant
  else
    narrow(band.reach, 1 - constant); // j >= i + constant
  return true;
}

/// What holds where a key is seen, or doesn't.
bool BandFinder::addConditions(Value condition, Places places, bool isNegated) {
  condition = origin(condition, places);
  if (auto splat = splatValue(condition))
    return (*splat != 0) != isNegated;
  Operation *op = condition.getDefiningOp();
  if (isNegated ? isa_and_nonnull<arith::OrIOp>(op) : isa_and_nonnull<arith::AndIOp>(op))
    return addConditions(op->getOperand(0), places, isNegated) &&
           addConditions(op->getOperand(1), places, isNegated);
  if (isa_and_nonnull<arith::XOrIOp>(op)) {
    for (bool left : {true, false})
      if (auto splat = splatValue(op->getOperand(left ? 0 : 1)))
        return addConditions(op->getOperand(left ? 1 : 0), places, isNegated != (*splat != 0));
    return false;
  }
  auto compare = dyn_cast_or_null<arith::CmpIOp>(op);
  return compare && addComparison(compare, places, isNegated);
}

bool BandFinder::addMask(Value term, Places places) {
  term = origin(term, places);
  if (auto splat = splatValue(term))
    return *splat == 0;
  Operation *op = term.getDefiningOp();
  if (isa_and_nonnull<arith::AddFOp>(op))
    return addMask(op->getOperand(0), places) && addMask(op->getOperand(1), places);
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op)) {
    auto hides = [](Value value) {
      auto splat = splatValue(value);
      return splat && hidesKey(*splat);
    };
    const bool hiddenWhereTrue = hides(select.getTrueValue());
    if (!hiddenWhereTrue && !hides(select.getFalseValue()))
      return false;
    return addConditions(select.getCondition(), places, hiddenWhereTrue) &&
           addMask(hiddenWhereTrue ? select.getFalseValue() : select.getTrueValue(), places);
  }
  if (!isa_and_nonnull<arith::MulFOp>(op))
    return false;
  for (bool left : {true, false}) { // a low number times a truth
    auto low = splatValue(op->getOperand(left ? 0 : 1));
    Value other = op->getOperand(left ? 1 : 0);
    Places inner = places;
    auto truth = origin(other, inner).getDefiningOp<arith::UIToFPOp>();
    if (low && std::isfinite(*low) && hidesKey(*low) && truth && isBit(truth.getIn()))
      return addConditions(truth.getIn(), inner, true);
  }
  return false;
}

bool hidesKey(double value) { return value <= -1e30; } // -inf and float's lowest number

std::optional<MaskBand> bandOf(Value term, int64_t queryDim, int64_t keyDim) {
  Places places(graph::shapeOf(term).size(), Along::Nothing);
  places[queryDim] = Along::Queries;
  places[keyDim] = Along::Keys;
  BandFinder finder;
  if (!finder.addMask(term, std::move(places)))
    return std::nullopt;
  return finder.found();
}

} // namespace dtc::raise
