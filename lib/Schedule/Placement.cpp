#include "dtc/Schedule/Placement.h"

#include <algorithm>

namespace dtc::schedule {

Placement::Placement(const std::vector<std::vector<int64_t>> &stages) {
  for (const std::vector<int64_t> &held : stages)
    chunksPerRank = std::max(chunksPerRank, int64_t(held.size()));
  for (const std::vector<int64_t> &held : stages) {
    byRank.insert(byRank.end(), held.begin(), held.end());
    byRank.resize(byRank.size() + chunksPerRank - held.size(), -1);
  }
  byStage.resize(byRank.size());
  for (size_t rank = 0; rank < stages.size(); ++rank)
    for (size_t chunk = 0; chunk < stages[rank].size(); ++chunk)
      if (int64_t stage = stages[rank][chunk]; stage >= 0 && stage < this->stages())
        byStage[stage] = {int32_t(rank), int32_t(chunk)};
}

Placement Placement::inTurn(int64_t ranks, int64_t chunks) {
  Placement result;
  result.chunksPerRank = chunks;
  result.byRank.resize(ranks * chunks);
  result.byStage.reserve(ranks * chunks);
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      result.byRank[rank * chunks + chunk] = int64_t(result.byStage.size());
      result.byStage.push_back({int32_t(rank), int32_t(chunk)});
    }
  return result;
}

std::string check(const Placement &placement) {
  for (int64_t stage = 0; stage < placement.stages(); ++stage)
    if (placement.rank(stage) < 0)
      return "stage " + std::to_string(stage) + " lies nowhere";
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    if (placement.stage(rank, 0) != rank)
      return "chunk 0 of rank " + std::to_string(rank) + " must be stage " + std::to_string(rank) +
             ", not " + std::to_string(placement.stage(rank, 0));
    for (int64_t chunk = 1; chunk < placement.chunks(); ++chunk)
      if (placement.stage(rank, chunk) < placement.stage(rank, chunk - 1))
        return "stages of rank " + std::to_string(rank) + " must ascend with its chunks";
  }
  return "";
}

} // namespace dtc::schedule
