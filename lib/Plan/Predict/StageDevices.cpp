#include "dtc/Plan/Predict/StageDevices.h"

#include "PlacedPrograms.h"

#include <algorithm>

namespace dtc::plan {

std::vector<DeviceRange> neighbouringDevices(const Degrees &degrees) {
  std::vector<DeviceRange> ranges;
  int64_t next = 0;
  for (int64_t rank = 0; rank < degrees.pp; ++rank) {
    Degrees own = inGroup(degrees, groupOf(degrees, rank));
    ranges.push_back({next, own.dp * own.tp * own.cp * own.ep});
    next += ranges.back().count;
  }
  return ranges;
}

StageDevices::StageDevices(const Cluster &cluster, std::vector<DeviceRange> given,
                           const Degrees &degrees)
    : ranks(std::move(given)), classOf(ranks.size(), 0) {
  if (ranks.size() < 2 || (cluster.others.empty() && degrees.groups.empty())) {
    classes.push_back({ranks.empty() ? DeviceRange{} : ranks[0], 0});
    return;
  }
  std::vector<std::pair<Cluster, size_t>> known;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::pair own(clusterOf(cluster, ranks[rank]), groupOf(degrees, int64_t(rank)));
    auto it = std::find(known.begin(), known.end(), own);
    classOf[rank] = static_cast<int>(it - known.begin());
    if (it != known.end())
      continue;
    classes.push_back({ranks[rank], own.second});
    known.push_back(std::move(own));
  }
}

Cluster clusterOf(const Cluster &cluster, DeviceRange range) {
  if (cluster.others.empty())
    return cluster;
  Cluster own = cluster;
  own.device = CostModel(cluster, range.count, range).device();
  own.levels = cluster.levelsAt(range.first);
  own.others.clear();
  own.devicesPerNode = own.nodes = 0;
  return own;
}

//===-- pipelines ---------------------------------------------------------===//

/// Of the levels above a stage's first device.
static PointToPoint linkOf(const StageCosts &stage, int level) {
  auto levels = static_cast<int>(stage.getModel().getCluster().levels.size());
  return stage.getModel().p2pLink(std::clamp(level, 0, std::max(0, levels - 1)));
}

/// The slowest between devices of two ranks, as either end sees it.
simulate::Boundary MixedStages::link(size_t from, size_t to) const {
  simulate::Boundary result;
  const DeviceRange &a = devices[from], &b = devices[to];
  for (int64_t sender : {a.first, a.first + a.count - 1})
    for (int64_t receiver : {b.first, b.first + b.count - 1}) {
      int out = cluster.levelBetween(sender, receiver);
      int in = cluster.levelBetween(receiver, sender);
      for (const PointToPoint &end : {linkOf(*byRank[from], out), linkOf(*byRank[to], in)}) {
        result.latency = std::max(result.latency, end.latency);
        if (result.bandwidth == 0 || end.bandwidth < result.bandwidth)
          result.bandwidth = end.bandwidth;
      }
      result.level = std::max(result.level, out);
    }
  return result;
}

simulate::Boundary MixedStages::boundary(int unit, size_t from, size_t to) const {
  simulate::Boundary result = link(from, to);
  double ahead = double(devices[to].count) / double(devices[from].count);
  // Of the devices that send or receive more.
  result.forwardBytes = byRank[to]->forwardBytes(unit) * std::max(1.0, ahead);
  result.backwardBytes = byRank[from]->backwardBytes(unit) * std::max(1.0, 1 / ahead);
  return result;
}

double MixedStages::tiedSeconds(const StageCosts::Runs &stages,
                                const schedule::Placement &placement, int64_t rank) const {
  double seconds = 0;
  for (StageCosts::Tied &own : byRank[rank]->tied(stages, placement, rank)) {
    // Its copies elsewhere may be larger.
    for (const StageCosts *other : byRank)
      for (const StageCosts::Tied &copy : other->tied(stages, placement, rank))
        if (copy.first == own.first && copy.last == own.last)
          own.bytes = std::max(own.bytes, copy.bytes);
    simulate::Boundary slowest = link(size_t(own.first), size_t(own.last));
    seconds += 2 * (slowest.latency + own.bytes / slowest.bandwidth);
  }
  return seconds;
}

simulate::Costs MixedStages::costs(const StageCosts::Runs &stages,
                                   const schedule::Placement &placement) const {
  simulate::Costs result;
  for (size_t i = 0; i < stages.size(); ++i) {
    auto holder = static_cast<size_t>(placement.rank(int64_t(i)));
    result.stages.push_back(byRank[holder]->stage(stages[i]));
    if (i > 0)
      result.boundaries.push_back(
          boundary(stages[i].begin, size_t(placement.rank(int64_t(i) - 1)), holder));
    if (i > 0 && placement.staysAfter(int64_t(i) - 1))
      result.boundaries.back().slotBytes =
          double(byRank[holder]->handedOverInSlots(stages[i - 1], stages[i]));
  }
  result.blockingSends = byRank[0]->blockingSends();
  result.placed = hasPlaces(byRank[0]->getModel().getCluster().software);
  for (size_t i = 0; i < byRank.size(); ++i) {
    auto rank = static_cast<int64_t>(i);
    const StageCosts &own = *byRank[i];
    result.ranks.push_back(own.rank(runsOf(stages, placement, rank)));
    result.ranks.back().update.blocking += tiedSeconds(stages, placement, rank);
    OverlapSlowdown slowdown = own.slowdown();
    result.slowdown.compute = std::max(result.slowdown.compute, slowdown.compute);
    result.slowdown.communication =
        std::max(result.slowdown.communication, slowdown.communication);
  }
  return result;
}

} // namespace dtc::plan
