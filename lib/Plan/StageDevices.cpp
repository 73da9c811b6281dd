#include "StageDevices.h"

#include <algorithm>

namespace dtc::plan {

StageDevices::StageDevices(const Cluster &cluster, const std::vector<DeviceRange> &ranks)
    : kindOf(ranks.size(), 0) {
  if (cluster.others.empty() || ranks.size() < 2)
    return;
  std::vector<Cluster> known;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Cluster own = clusterOf(cluster, ranks[rank], 1);
    auto it = std::find(known.begin(), known.end(), own);
    kindOf[rank] = static_cast<int>(it - known.begin());
    if (it != known.end())
      continue;
    known.push_back(std::move(own));
    kinds.push_back(ranks[rank]);
  }
  if (kinds.size() == 1)
    kinds.clear();
}

Cluster clusterOf(const Cluster &cluster, DeviceRange range, int64_t devices) {
  Cluster own = cluster;
  own.device = CostModel(cluster, devices, range).device();
  own.levels = cluster.levelsAt(range.first);
  own.others.clear();
  own.devicesPerNode = own.nodes = 0;
  return own;
}

void takeRank(simulate::Costs &costs, const simulate::Costs &theirs, size_t rank) {
  for (size_t stage = rank; stage < costs.stages.size(); stage += costs.ranks.size())
    costs.stages[stage] = theirs.stages[stage];
  costs.ranks[rank] = theirs.ranks[rank];
  costs.slowdown.compute = std::max(costs.slowdown.compute, theirs.slowdown.compute);
  costs.slowdown.communication =
      std::max(costs.slowdown.communication, theirs.slowdown.communication);
}

} // namespace dtc::plan
