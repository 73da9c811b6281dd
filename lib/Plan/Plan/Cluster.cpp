// Clusters by name, and what stands where in them.
#include "dtc/Plan/Plan/Cluster.h"

#include "ClusterCatalog.h"
#include "SoftwareYaml.h"

#include "dtc/Plan/Plan/Preset.h"
#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Plan/Plan/TextFile.h"

#include <algorithm>
#include <filesystem>

namespace dtc::plan {

int64_t Cluster::devices() const {
  int64_t count = devicesPerNode * nodes;
  for (const NodeGroup &group : others)
    count += group.devices();
  return count;
}

namespace {

/// Where a device stands: its group (-1: the cluster's first nodes) and the
/// number of the group's first device.
struct Place {
  int group = -1;
  int64_t first = 0;
};

} // namespace

static Place placeOf(const Cluster &cluster, int64_t id) {
  Place place;
  int64_t end = cluster.devicesPerNode * cluster.nodes;
  for (const NodeGroup &group : cluster.others) {
    if (id < end)
      break;
    ++place.group;
    place.first = end;
    end += group.devices();
  }
  return place;
}

const DeviceSpec &Cluster::deviceAt(int64_t id) const {
  Place place = placeOf(*this, id);
  return place.group < 0 ? device : others[place.group].device;
}

std::vector<LinkLevel> Cluster::levelsAt(int64_t id) const {
  Place place = placeOf(*this, id);
  if (place.group < 0)
    return levels;
  std::vector<LinkLevel> result = others[place.group].levels;
  for (const LinkLevel &level : levels)
    if (level.size == 0 || level.size > devicesPerNode)
      result.push_back(level);
  return result;
}

int Cluster::levelBetween(int64_t a, int64_t b) const {
  Place at = placeOf(*this, a), to = placeOf(*this, b);
  const std::vector<LinkLevel> &inner = at.group < 0 ? levels : others[at.group].levels;
  int index = 0;
  // Nodes are counted within their group, what joins nodes across all.
  for (const LinkLevel &level : inner) {
    bool node = at.group >= 0 || (level.size != 0 && level.size <= devicesPerNode);
    if (!node)
      break;
    if (at.group == to.group && (level.size == 0 || (a - at.first) / level.size ==
                                                        (b - at.first) / level.size))
      return index;
    ++index;
  }
  for (const LinkLevel &level : levels) {
    if (level.size != 0 && level.size <= devicesPerNode)
      continue;
    if (level.size == 0 || a / level.size == b / level.size)
      return index;
    ++index;
  }
  return std::max(index - 1, 0);
}

Result<Cluster> loadCluster(const std::string &nameOrFile) {
  return loadClusterFor(nameOrFile, {});
}

Result<Cluster> loadClusterFor(const std::string &nameOrFile, const Software &software) {
  if (std::optional<Cluster> cluster = builtinCluster(nameOrFile)) {
    cluster->software = software;
    return *cluster;
  }
  bool isPath = nameOrFile.find_first_of("./") != std::string::npos;
  std::error_code error; // a name may be longer than any file's
  if (!isPath && !std::filesystem::exists(nameOrFile, error)) {
    std::string close = nearest(nameOrFile, builtinClusters());
    std::string known;
    for (const std::string &name : builtinClusters())
      known += (known.empty() ? "" : ", ") + name;
    return Error{"unknown cluster: " + nameOrFile +
                     (close.empty() ? ", neither a file nor among " + known
                                    : " (did you mean " + close + "?)"),
                 ErrorCategory::Usage};
  }
  Result<std::string> text = readText(nameOrFile, "cluster");
  if (!text)
    return text.error();
  return clusterFromYaml(*text, nameOrFile, software);
}

} // namespace dtc::plan
