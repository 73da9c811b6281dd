#include "dtc/Plan/Search/RankStages.h"

#include "DataParallelRanks.h"

namespace dtc::plan {

/// Communication buffers of a group for each degree; gradients of experts are summed
/// over dp and cp, those of all others over ep, too.
static int64_t communicators(const Degrees &degrees) {
  return (degrees.dp > 1) + (degrees.tp > 1) + (degrees.cp > 1) + (degrees.pp > 1) +
         (degrees.ep > 1) + (degrees.ep > 1 && degrees.dp * degrees.cp > 1);
}

static const UnitCosts &unitCostsOf(const RankStages::Request &request, Recompute recompute) {
  return request.shard->unitCosts(recompute, *request.cuts);
}

RankStages::RankStages(const Request &request)
    : degrees(request.degrees),
      unitCosts(unitCostsOf(request, request.someBlocks ? Recompute::None : degrees.recompute)),
      mesh(makeMesh(request.shard->getProblem(), request.shard->getFacts(), degrees)),
      costs(request.shardings->getModel(), degrees, mesh, unitCosts,
            amongDataRanks(request.shard->weights(*request.cuts), degrees, mesh),
            request.shardings->getBlocks(), scalarSums(request.shard->getProblem(), mesh),
            request.times),
      prices(costs, degrees, unitCosts, request.shardings->getBlocks(),
             request.someBlocks ? &unitCostsOf(request, degrees.recompute) : nullptr),
      capacity(request.shardings->getModel().availableBytes(communicators(degrees))) {}

std::shared_ptr<RankStages> RankStagesStore::get(RankStages::Request request) {
  request.times = times[request.shardings];
  if (!request.times)
    request.times = std::make_shared<CollectiveTimes>(request.shardings->getModel());
  times[request.shardings] = request.times;
  constexpr size_t most = 256;
  Key key{request.shardings, request.shard, request.cuts, request.degrees, request.someBlocks};
  key.degrees.schedule = kDefaultSchedule;
  key.degrees.chunks = 1;
  key.degrees.kept = 0;
  auto [at, isNew] = byKey.try_emplace(key, entries.begin());
  if (!isNew) {
    entries.splice(entries.begin(), entries, at->second);
    return at->second->second;
  }
  entries.emplace_front(std::move(key), std::make_shared<RankStages>(request));
  at->second = entries.begin();
  if (entries.size() > most) {
    byKey.erase(entries.back().first);
    entries.pop_back();
  }
  return entries.front().second;
}

} // namespace dtc::plan
