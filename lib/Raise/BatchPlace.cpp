#include "BatchPlace.h"

using namespace mlir;
using dtc::sharding::FactorId;
using dtc::sharding::ShardingRule;
using dtc::sharding::TensorFactors;

namespace dtc::raise {

std::optional<BatchPlace> moveThroughReshape(const BatchPlace &place, ArrayRef<int64_t> from,
                                             ArrayRef<int64_t> to, int64_t batch) {
  // Elements more major than the batch.
  const int64_t outside = product(from.take_front(place.dim)) * place.outer;
  std::optional<BatchPlace> inside;
  int64_t before = 1;
  for (size_t i = 0; i < to.size() && before <= outside; before *= to[i++]) {
    if (outside % before != 0)
      continue;
    const int64_t outer = outside / before;
    if (outer * batch > to[i] || to[i] % (outer * batch) != 0)
      continue;
    const BatchPlace found{int64_t(i), outer, to[i] / (outer * batch)};
    // A batch of one fits nearly everywhere, and each place is right as long as all ops agree. Best
    // is a dimension of its own, next the leading part of one ([s,1,(h e)] -> [s,h,e]). The
    // features' dimension is none of these: [s,1,h,e] -> [s,(h e)] merges it with the positions.
    if (batch > 1 || (outer == 1 && found.inner == 1))
      return found;
    const bool features = product(to.drop_front(i + 1)) == 1;
    if (!inside || (outer == 1 && inside->outer != 1 && !features))
      inside = found;
  }
  return inside;
}

std::optional<BatchFactor> factorOf(const ShardingRule &rule, const TensorFactors &dims,
                                    const BatchPlace &place, int64_t batch) {
  int64_t before = 1;
  std::optional<BatchFactor> found;
  for (FactorId id : dims[place.dim]) {
    const int64_t size = rule.factors[id].size;
    if (place.outer % before == 0) {
      const int64_t outer = place.outer / before;
      if (outer * batch <= size && size % (outer * batch) == 0)
        found = BatchFactor{id, outer, size / (outer * batch)};
    }
    before *= size;
    if (found && before > place.outer)
      break;
  }
  return found;
}

std::optional<BatchPlace> placeOf(const ShardingRule &rule, const TensorFactors &dims,
                                  const BatchFactor &factor) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    int64_t before = 1, after = 1;
    bool found = false;
    for (FactorId id : dims[dim]) {
      if (id == factor.factor)
        found = true;
      else
        (found ? after : before) *= rule.factors[id].size;
    }
    if (found)
      return BatchPlace{int64_t(dim), before * factor.outer, factor.inner * after};
  }
  return std::nullopt;
}

LogicalResult visitUntilSettled(ArrayRef<Operation *> ops, bool &changed, bool backwards,
                                function_ref<LogicalResult(Operation *)> visit) {
  do {
    changed = false;
    for (Operation *op : ops)
      if (failed(visit(op)))
        return failure();
    for (Operation *op : llvm::reverse(ops))
      if (backwards && failed(visit(op)))
        return failure();
  } while (changed);
  return success();
}

} // namespace dtc::raise
