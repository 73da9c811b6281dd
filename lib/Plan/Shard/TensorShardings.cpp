#include "dtc/Plan/Shard/TensorShardings.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

using sharding::ReshardStep;
using sharding::TensorSharding;

static std::vector<int> encode(const TensorSharding &sharding) {
  std::vector<int> key;
  for (const sharding::AxisList &axes : sharding.dims) {
    key.insert(key.end(), axes.begin(), axes.end());
    key.push_back(-1);
  }
  for (const sharding::Partial &partial : sharding.partial) {
    key.push_back(partial.axis);
    key.push_back(static_cast<int>(partial.kind));
  }
  return key;
}

ShardingId TensorShardings::intern(const TensorSharding &sharding) {
  auto [it, isNew] = ids.try_emplace(encode(sharding), static_cast<ShardingId>(shardings.size()));
  if (isNew)
    shardings.push_back(sharding);
  return it->second;
}

double TensorShardings::reshardSeconds(const Value &value, ShardingId from, ShardingId to) {
  if (from == to)
    return 0;
  bool stays = value.kind == ValueKind::Parameter && !model.getCluster().software.gathersWeights;
  std::vector<int64_t> key = {from, to, byteSize(value.type), stays};
  key.insert(key.end(), value.shape.begin(), value.shape.end());
  auto [it, isNew] = costs.try_emplace(std::move(key), 0.0);
  if (!isNew)
    return it->second;
  auto steps = sharding::reshard(shardings[from], shardings[to], mesh);
  auto isSlice = [](const ReshardStep &step) { return step.kind == sharding::StepKind::Slice; };
  if (!steps || (stays && !std::all_of(steps->begin(), steps->end(), isSlice)))
    return it->second = std::numeric_limits<double>::infinity();
  TensorSharding before = shardings[from];
  for (const ReshardStep &step : *steps) {
    int64_t bytes = sharding::stepBytes(step, before, value.shape, byteSize(value.type), mesh);
    it->second += model.collectiveSeconds(step.kind, step.axes, double(bytes), mesh);
    before = step.after;
  }
  return it->second;
}

} // namespace dtc::plan
