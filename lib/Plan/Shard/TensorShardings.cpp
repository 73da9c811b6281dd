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

TensorShardings::Resharded &TensorShardings::reshardedAs(const Value &value) {
  bool stays = value.kind == ValueKind::Parameter && !model.getCluster().software.gathersWeights;
  if (last && last->isFor(value, stays))
    return *last;
  auto known = std::find_if(resharded.begin(), resharded.end(),
                            [&](const Resharded &other) { return other.isFor(value, stays); });
  if (known == resharded.end())
    known = resharded.insert(known, {value.shape, byteSize(value.type), stays, {}});
  return *(last = &*known);
}

double TensorShardings::reshardSeconds(const Value &value, ShardingId from, ShardingId to) {
  if (from == to)
    return 0;
  Resharded &as = reshardedAs(value);
  const int64_t key = (int64_t{from} << 32) + to;
  if (const double *known = as.seconds.find(key))
    return *known;
  return as.seconds.add(key) = findSeconds(as, from, to);
}

double TensorShardings::findSeconds(const Resharded &value, ShardingId from, ShardingId to) const {
  auto steps = sharding::reshard(shardings[from], shardings[to], mesh);
  auto isSlice = [](const ReshardStep &step) { return step.kind == sharding::StepKind::Slice; };
  if (!steps || (value.stays && !std::all_of(steps->begin(), steps->end(), isSlice)))
    return std::numeric_limits<double>::infinity();
  double seconds = 0;
  TensorSharding before = shardings[from];
  for (const ReshardStep &step : *steps) {
    int64_t bytes = sharding::stepBytes(step, before, value.shape, value.elementBytes, mesh);
    seconds += model.collectiveSeconds(step.kind, step.axes, double(bytes), mesh);
    before = step.after;
  }
  return seconds;
}

} // namespace dtc::plan
