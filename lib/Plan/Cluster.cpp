// Clusters by name, and what stands where in them.
#include "dtc/Plan/Cluster.h"

#include "ClusterCatalog.h"

#include "dtc/Plan/Spec.h"

#include <fstream>
#include <sstream>

namespace dtc::plan {

int64_t Cluster::devices() const {
  int64_t count = devicesPerNode * nodes;
  for (const NodeGroup &group : others)
    count += group.devices();
  return count;
}

/// The group of `others` that a device belongs to, or null for the first.
static const NodeGroup *groupOf(const Cluster &cluster, int64_t id) {
  const NodeGroup *group = nullptr;
  int64_t end = cluster.devicesPerNode * cluster.nodes;
  for (const NodeGroup &next : cluster.others) {
    if (id < end)
      break;
    group = &next;
    end += next.devices();
  }
  return group;
}

const DeviceSpec &Cluster::deviceAt(int64_t id) const {
  const NodeGroup *group = groupOf(*this, id);
  return group ? group->device : device;
}

std::vector<LinkLevel> Cluster::levelsAt(int64_t id) const {
  const NodeGroup *group = groupOf(*this, id);
  if (!group)
    return levels;
  std::vector<LinkLevel> result = group->levels;
  for (const LinkLevel &level : levels)
    if (level.size == 0 || level.size > devicesPerNode)
      result.push_back(level);
  return result;
}

Result<Cluster> loadCluster(const std::string &nameOrFile) {
  if (std::optional<Cluster> cluster = builtinCluster(nameOrFile))
    return *cluster;
  std::ifstream stream(nameOrFile);
  bool isPath = nameOrFile.find_first_of("./") != std::string::npos;
  if (!stream && !isPath) {
    std::string close = nearest(nameOrFile, builtinClusters());
    return Error{"unknown cluster: " + nameOrFile +
                     (close.empty() ? "" : " (did you mean " + close + "?)"), 2};
  }
  std::stringstream text;
  if (!stream || !(text << stream.rdbuf()))
    return Error{"cannot read cluster file: " + nameOrFile, 3};
  return clusterFromYaml(text.str(), nameOrFile);
}

} // namespace dtc::plan
