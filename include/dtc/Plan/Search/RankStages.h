// What stages cost on one kind of pipeline rank.
//
// That doesn't depend on the schedule, nor on the number of chunks where these have the same
// cuts to choose from: 1F1B, ZB-H1 and interleaved schedules of a mesh, which are tried in the
// order of their floors, use the same figures. So those that were used last are kept.
#pragma once

#include "dtc/Plan/Search/ShardCosts.h"
#include "dtc/Plan/Search/StagePrices.h"

#include <list>
#include <map>
#include <memory>

namespace dtc::plan {

struct RankStages {
  /// What is asked for; `shardings` and `shard` must outlive it.
  struct Request {
    ShardLibrary *shardings = nullptr; ///< of the rank's devices
    const ShardCosts *shard = nullptr;
    Degrees degrees; ///< as if all ranks were like this one
    const std::vector<OpId> *cuts = nullptr;
    /// As in EstimateOptions.
    bool someBlocks = false;
    std::shared_ptr<CollectiveTimes> times = nullptr; ///< of their model
  };
  explicit RankStages(const Request &request);
  RankStages(const RankStages &) = delete;

  const Degrees degrees;
  const UnitCosts &unitCosts;
  const sharding::Mesh mesh;
  StageCosts costs;
  StagePrices prices;
  const double capacity; ///< bytes that a rank has for tensors
};

class RankStagesStore {
public:
  /// `times` aside.
  std::shared_ptr<RankStages> get(RankStages::Request request);

private:
  struct Key {
    const ShardLibrary *shardings;
    const ShardCosts *shard;
    const std::vector<OpId> *cuts;
    Degrees degrees; ///< of any schedule
    bool someBlocks;
    auto operator<=>(const Key &) const = default;
  };
  using Entries = std::list<std::pair<Key, std::shared_ptr<RankStages>>>;
  Entries entries; ///< those used last come first
  std::map<Key, Entries::iterator> byKey;
  std::map<const ShardLibrary *, std::shared_ptr<CollectiveTimes>> times;
};

} // namespace dtc::plan
