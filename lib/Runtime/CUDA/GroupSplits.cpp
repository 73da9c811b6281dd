#include "GroupSplits.h"

#include <algorithm>
#include <set>

namespace dtc::rt::cuda {
namespace {

/// Groups that all of their ranks know of, each once.
std::vector<GroupKey> completeGroups(const std::vector<std::vector<GroupKey>> &groupsOfRanks) {
  std::map<GroupKey, std::set<int>> knownBy;
  for (size_t rank = 0; rank < groupsOfRanks.size(); ++rank)
    for (const GroupKey &key : groupsOfRanks[rank])
      knownBy[key].insert(static_cast<int>(rank));
  std::vector<GroupKey> complete;
  for (const auto &[key, ranks] : knownBy)
    if (ranks == std::set<int>(key.ranks.begin(), key.ranks.end()))
      complete.push_back(key);
  return complete;
}

/// Puts a group into the first round that has none of its ranks yet.
class Rounds {
public:
  void add(const GroupKey &key) {
    size_t round = 0;
    while (round < taken.size() &&
           std::ranges::any_of(key.ranks, [&](int rank) { return taken[round].contains(rank); }))
      ++round;
    if (round == taken.size()) {
      taken.emplace_back();
      groups.emplace_back();
    }
    taken[round].insert(key.ranks.begin(), key.ranks.end());
    groups[round].push_back(key);
  }
  std::vector<std::vector<GroupKey>> groups;

private:
  std::vector<std::set<int>> taken;
};

} // namespace

GroupSplits planSplits(const std::vector<std::vector<GroupKey>> &groupsOfRanks) {
  std::vector<GroupKey> groups = completeGroups(groupsOfRanks);
  std::set<int> all;
  for (const GroupKey &key : groups)
    all.insert(key.ranks.begin(), key.ranks.end());
  GroupSplits splits;
  Rounds rounds;
  for (GroupKey &key : groups)
    if (!splits.whole && key.ranks.size() == all.size())
      splits.whole = std::move(key);
    else
      rounds.add(key);
  if (rounds.groups.size() + (splits.whole ? 1 : 0) < 2)
    return {};
  splits.parent = splits.whole ? splits.whole->ranks : std::vector<int>(all.begin(), all.end());
  splits.rounds = std::move(rounds.groups);
  return splits;
}

} // namespace dtc::rt::cuda
