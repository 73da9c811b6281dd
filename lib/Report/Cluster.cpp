#include "Cluster.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dtc::report {

using plan::Cluster;
using plan::Plan;

std::vector<DeviceRole> rolesOf(const Plan &plan, int64_t devices) {
  std::vector<DeviceRole> roles(devices);
  const schedule::Placement placement = placementOf(plan.degrees);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (size_t i = 0; i < plan.stages[stage].devices.size(); ++i) {
      int64_t device = plan.stages[stage].devices[i];
      if (device >= 0 && device < devices)
        roles[device] = {placement.rank(int64_t(stage)), int64_t(i)};
    }
  return roles;
}

const sharding::Mesh &meshOf(const Plan &plan, const DeviceRole &role) {
  return shardingOf(plan, groupOf(plan.degrees, std::max<int64_t>(0, role.pipelineRank))).mesh;
}

/// Devices of each node, as ids are counted: one group of nodes after the other.
static std::vector<std::pair<int64_t, int64_t>> nodesOf(const Cluster &cluster, int64_t devices) {
  std::vector<std::pair<int64_t, int64_t>> nodes;
  int64_t next = 0;
  auto add = [&](int64_t size, int64_t count) {
    for (int64_t node = 0; (count == 0 || node < count) && next < devices; ++node) {
      nodes.emplace_back(next, std::min(size, devices - next));
      next += size;
    }
  };
  add(cluster.devicesPerNode > 0 ? cluster.devicesPerNode : devices,
      cluster.others.empty() ? 0 : cluster.nodes);
  for (const plan::NodeGroup &group : cluster.others)
    add(group.devicesPerNode, group.nodes);
  return nodes;
}

std::vector<AlikeNodes> foldNodes(const Cluster &cluster, const Plan &plan, int64_t devices) {
  using Share = std::tuple<int64_t, std::vector<int64_t>>; // pipeline rank, coordinates
  std::vector<DeviceRole> roles = rolesOf(plan, devices);
  auto shareOf = [&](int64_t device) {
    std::vector<int64_t> place;
    const sharding::Mesh &mesh = meshOf(plan, roles[device]);
    if (roles[device].meshRank >= 0)
      place = mesh.coordinates(roles[device].meshRank);
    for (size_t axis = 0; axis < place.size(); ++axis)
      if (mesh.axes[axis].degree == "dp")
        place[axis] = 0;
    return Share(roles[device].pipelineRank, std::move(place));
  };
  std::map<std::tuple<std::string, std::vector<Share>>, size_t> known;
  std::vector<AlikeNodes> groups;
  int64_t node = 0;
  for (auto [first, size] : nodesOf(cluster, devices)) {
    std::vector<Share> shares;
    for (int64_t device = first; device < first + size; ++device)
      shares.push_back(shareOf(device));
    auto [entry, isNew] =
        known.try_emplace({cluster.deviceAt(first).name, std::move(shares)}, groups.size());
    if (isNew)
      groups.push_back({{}, {}, size});
    groups[entry->second].nodes.push_back(node++);
    groups[entry->second].firstDevices.push_back(first);
  }
  return groups;
}

/// The first of each run of pipeline ranks that have one mesh on one type of device.
static std::vector<int64_t> alikeRanks(const Cluster &cluster, const Plan &plan) {
  std::vector<int64_t> firsts;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    auto kindOf = [&](int64_t of) {
      return std::pair(groupOf(plan.degrees, of),
                       cluster.deviceAt(plan.stages[of].devices.front()).name);
    };
    if (rank == 0 || kindOf(rank) != kindOf(rank - 1))
      firsts.push_back(rank);
  }
  return firsts;
}

std::vector<DegreeLink> linksOf(const Cluster &cluster, const Plan &plan) {
  std::vector<DegreeLink> links;
  auto add = [&](const std::string &degree, int64_t size, const std::string &ranks,
                 const std::vector<int64_t> &group) {
    DegreeLink link{degree, size, ranks};
    link.device = group.front();
    for (int64_t device : group)
      if (device != group.front())
        link.level = std::max(link.level, cluster.levelBetween(group.front(), device));
    links.push_back(link);
  };
  std::vector<int64_t> firsts = alikeRanks(cluster, plan);
  for (size_t part = 0; part < firsts.size(); ++part) {
    int64_t rank = firsts[part];
    int64_t end = part + 1 < firsts.size() ? firsts[part + 1] : plan.degrees.pp;
    const std::string ranks = firsts.size() > 1 ? ranksText(rank, end - 1) : "";
    const sharding::Mesh &mesh = shardingOf(plan, groupOf(plan.degrees, rank)).mesh;
    for (const char *degree : {"tp", "cp", "ep", "dp"}) {
      sharding::AxisList axes = mesh.ofDegree(degree);
      if (mesh.size(axes) < 2)
        continue;
      std::vector<int64_t> group;
      for (int64_t place : mesh.group(0, axes))
        group.push_back(plan.stages[rank].devices.at(place));
      add(degree, mesh.size(axes), ranks, group);
    }
  }
  if (plan.degrees.pp > 1) {
    DegreeLink farthest{"pp", plan.degrees.pp, ""};
    for (size_t stage = 0; stage + 1 < plan.stages.size(); ++stage) {
      int64_t from = plan.stages[stage].devices.front(),
              to = plan.stages[stage + 1].devices.front();
      if (from != to && cluster.levelBetween(from, to) >= farthest.level)
        farthest.device = from, farthest.level = cluster.levelBetween(from, to);
    }
    links.push_back(farthest);
  }
  return links;
}

std::string numbersText(const std::vector<int64_t> &numbers) {
  constexpr size_t kMost = 6;
  std::string text;
  size_t parts = 0;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    if (parts++ == kMost)
      return text + " and " + std::to_string(numbers.size() - i) + " more";
    text += (i ? ", " : "") + std::to_string(numbers[i]);
    if (end - i > 1)
      text += (end - i > 2 ? "\u2013" : ", ") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

} // namespace dtc::report
