#include "RankGroups.h"

namespace dtc::lower {

uint32_t RankGroups::find(const sharding::AxisList &axes) {
  auto [it, isNew] = known.try_emplace(axes, static_cast<uint32_t>(groups.size()));
  if (!isNew)
    return it->second;
  auto group = std::make_unique<rt::fbs::GroupT>();
  for (size_t position = 0; position < ranks.size(); ++position) {
    auto at = static_cast<int64_t>(position);
    if (mesh.position(at, axes) != 0)
      continue; // the first of a list names all
    auto list = std::make_unique<rt::fbs::RankListT>();
    for (int64_t member : mesh.group(at, axes))
      list->ranks.push_back(ranks[static_cast<size_t>(member)]);
    group->lists.push_back(std::move(list));
  }
  groups.push_back(std::move(group));
  return it->second;
}

uint32_t RankGroups::find(const std::vector<std::vector<int32_t>> &lists) {
  auto [it, isNew] = knownLists.try_emplace(lists, static_cast<uint32_t>(groups.size()));
  if (!isNew)
    return it->second;
  auto group = std::make_unique<rt::fbs::GroupT>();
  for (const std::vector<int32_t> &ranks : lists) {
    auto list = std::make_unique<rt::fbs::RankListT>();
    list->ranks = ranks;
    group->lists.push_back(std::move(list));
  }
  groups.push_back(std::move(group));
  return it->second;
}

} // namespace dtc::lower
