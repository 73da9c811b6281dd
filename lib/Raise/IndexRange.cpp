#include "dtc/Raise/IndexRange.h"

#include "dtc/Dialect/Graph/Graph.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace dtc::raise {

bool isBit(Value value) { return getElementTypeOrSelf(value).isInteger(1); }

namespace {

using Found = std::optional<IndexRange>;

/// Far more than any model needs between a table and the indices it is read at.
constexpr unsigned kDeepest = 64;

Found unite(Found a, Found b) {
  if (!a || !b)
    return std::nullopt;
  return IndexRange{std::min(a->low, b->low), std::max(a->high, b->high)};
}

Found add(Found a, Found b) {
  IndexRange sum;
  if (!a || !b || __builtin_add_overflow(a->low, b->low, &sum.low) ||
      __builtin_add_overflow(a->high, b->high, &sum.high))
    return std::nullopt;
  return sum;
}

Found multiply(Found a, Found b) {
  if (!a || !b)
    return std::nullopt;
  Found result;
  for (int64_t x : {a->low, a->high})
    for (int64_t y : {b->low, b->high}) {
      int64_t product;
      if (__builtin_mul_overflow(x, y, &product))
        return std::nullopt;
      IndexRange corner{product, product};
      result = result ? unite(result, corner) : corner;
    }
  return result;
}

Found constantRange(arith::ConstantOp op) {
  auto elements = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!elements || elements.empty())
    return std::nullopt;
  bool unsignedOrBool = elements.getElementType().isUnsignedInteger() || isBit(op);
  auto number = [&](const APInt &value) {
    return unsignedOrBool ? int64_t(value.getZExtValue()) : value.getSExtValue();
  };
  if (elements.isSplat()) {
    int64_t value = number(elements.getSplatValue<APInt>());
    return IndexRange{value, value};
  }
  Found result;
  for (const APInt &element : elements.getValues<APInt>()) {
    IndexRange one{number(element), number(element)};
    result = result ? unite(result, one) : one;
  }
  return result;
}

class Bounds {
public:
  Found of(Value value, unsigned depth);

private:
  Found compute(Operation *op, unsigned depth);
  Found reduced(graph::ReduceOp op, unsigned depth);

  DenseMap<Value, Found> known;
};

Found Bounds::of(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!op || !type || depth > kDeepest)
    return std::nullopt;
  if (auto it = known.find(value); it != known.end())
    return it->second;
  Found found = compute(op, depth + 1);
  // What doesn't fit wraps around: then nothing is known but that a bit is 0 or 1.
  bool bit = isBit(value);
  if (bit && (!found || found->low < 0 || found->high > 1))
    found = IndexRange{0, 1};
  if (found && type.getElementType().isSignlessInteger() && !bit) {
    unsigned bits = type.getElementTypeBitWidth();
    if (bits < 64 && (found->low < llvm::minIntN(bits) || found->high > llvm::maxIntN(bits)))
      found = std::nullopt;
  }
  return known[value] = found;
}

Found Bounds::compute(Operation *op, unsigned depth) {
  auto in = [&](unsigned i) { return of(op->getOperand(i), depth); };
  auto inside = [](int64_t size) { return size > 0 ? Found({0, size - 1}) : std::nullopt; };
  return TypeSwitch<Operation *, Found>(op)
      .Case([&](arith::ConstantOp constant) { return constantRange(constant); })
      .Case([&](graph::IotaOp iota) { return inside(iota.getType().getDimSize(iota.getDim())); })
      .Case([&](graph::TopKOp topK) { return inside(graph::shapeOf(topK.getInput()).back()); })
      .Case<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::BroadcastOp,
            arith::TruncIOp>([&](auto) { return in(0); })
      .Case([&](arith::ExtSIOp) { return isBit(op->getOperand(0)) ? Found() : in(0); })
      .Case([&](arith::ExtUIOp) {
        Found range = in(0);
        return range && range->low >= 0 ? range : std::nullopt;
      })
      .Case([&](graph::ConcatOp concat) {
        Found all = in(0);
        for (unsigned i = 1; i < concat->getNumOperands(); ++i)
          all = unite(all, in(i));
        return all;
      })
      .Case([&](arith::AddIOp) { return add(in(0), in(1)); })
      .Case([&](arith::SubIOp) { return add(in(0), multiply(in(1), IndexRange{-1, -1})); })
      .Case([&](arith::MulIOp) { return multiply(in(0), in(1)); })
      .Case([&](arith::SelectOp) { return unite(in(1), in(2)); })
      .Case([&](arith::MaxSIOp) -> Found {
        Found a = in(0), b = in(1);
        if (!a || !b || isBit(op->getOperand(0)))
          return std::nullopt;
        return IndexRange{std::max(a->low, b->low), std::max(a->high, b->high)};
      })
      .Case([&](arith::MinSIOp) -> Found {
        Found a = in(0), b = in(1);
        if (!a || !b || isBit(op->getOperand(0)))
          return std::nullopt;
        return IndexRange{std::min(a->low, b->low), std::min(a->high, b->high)};
      })
      .Case([&](graph::ReduceOp reduce) { return reduced(reduce, depth); })
      // Outside of the table there is 0.
      .Case<graph::GatherOp, graph::PickOp>([&](auto) { return unite(in(0), IndexRange{0, 0}); })
      .Default([](Operation *) { return std::nullopt; });
}

Found Bounds::reduced(graph::ReduceOp op, unsigned depth) {
  Found range = of(op.getInput(), depth);
  auto input = cast<RankedTensorType>(op.getInput().getType());
  int64_t results = cast<RankedTensorType>(op.getType()).getNumElements();
  if (!range || results == 0 || input.getNumElements() == 0)
    return std::nullopt;
  switch (op.getKind()) {
  case graph::ReduceKind::Max:
  case graph::ReduceKind::Min:
    return range;
  case graph::ReduceKind::Sum: {
    int64_t terms = input.getNumElements() / results;
    return multiply(range, IndexRange{terms, terms});
  }
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<IndexRange> rangeOf(Value value) { return Bounds().of(value, 0); }

} // namespace dtc::raise
