#include "Surroundings.h"

#include "../Storage.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;

/// By a level of ZeRO.
static void store(WeightClass &weights, int zero, const AxisList &axes) {
  weights.state = zero >= 1 ? axes : AxisList{};
  weights.gradient = zero >= 2 ? axes : AxisList{};
  weights.storage = zero >= 3 ? axes : AxisList{};
}

Weights surrounded(Weights weights, const Degrees &degrees, const sharding::Mesh &mesh,
                   bool mixesLevels) {
  AxisList data = mesh.ofDegree("dp"), storage = storageAxes(degrees, mesh);
  auto shift = static_cast<int>(data.size());
  std::vector<WeightClass> lower;
  for (WeightClass &each : weights.classes) {
    for (AxisList *axes : {&each.pending, &each.split})
      for (sharding::AxisId &axis : *axes)
        axis += shift;
    if (!each.stored)
      continue;
    each.pending.insert(each.pending.begin(), data.begin(), data.end());
    AxisList own = without(storage, each.split);
    store(each, degrees.zero, own);
    if (!mixesLevels || own.empty())
      continue;
    each.open = true;
    each.level = WeightClass::Level::Higher;
    lower.push_back(each);
    lower.back().level = WeightClass::Level::Lower;
    store(lower.back(), degrees.zero - 1, own);
  }
  weights.classes.insert(weights.classes.end(), lower.begin(), lower.end());
  return weights;
}

std::vector<AxisList> surroundedSums(const ShardCosts &shard, const sharding::Mesh &mesh) {
  AxisList batch = batchAxes(mesh);
  const Problem &problem = shard.getProblem();
  std::vector<AxisList> result;
  if (!batch.empty() && std::any_of(problem.values.begin(), problem.values.end(),
                                    [](const Value &v) { return v.kind == ValueKind::Target; }))
    result.push_back(batch);
  for (AxisList axes : shard.getNormSums()) {
    for (sharding::AxisId &axis : axes)
      axis += static_cast<int>(mesh.ofDegree("dp").size());
    result.push_back(std::move(axes));
  }
  return result;
}

} // namespace dtc::plan
