// Clusters from YAML.
#include "ClusterCatalog.h"
#include "ClusterWords.h"
#include "SoftwareYaml.h"

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/YamlReader.h"

namespace dtc::plan {

/// More is a mistake, and their bytes may not fit in 64 bits.
static constexpr double kMostMemoryGb = 1e9;

/// Of a list or map that takes longer, the more entries it has: no more than any cluster has.
static void checkCount(YamlMap &map, const char *key) {
  constexpr size_t kMost = 4096;
  if (YAML::Node list = map.at(key); list.size() > kMost)
    map.fail(list, std::string(key) + " has more than " + std::to_string(kMost) + " entries");
}

template <typename Enum>
static Enum word(YamlMap &map, const std::string &key,
                 const std::vector<std::pair<Enum, std::string>> &names) {
  auto text = map.get<std::string>(key);
  for (const auto &[value, name] : names)
    if (text == name)
      return value;
  map.fail(map.at(key), "unknown " + key + ": " + text);
}

static std::map<DType, double> readRates(YamlMap &map) {
  std::map<DType, double> rates;
  for (const auto &[type, name] : rateNames)
    if (map.has(name))
      rates[type] = map.number<double>(name, 0) * 1e12;
  return rates;
}

static void readPeak(YamlMap map, DeviceSpec &device) {
  device.peak = readRates(map);
  map.finish();
  device.achieved.clear();
  device.achievedTF32 = 0;
}

static void readAchieved(YamlMap map, DeviceSpec &device) {
  device.achieved = readRates(map);
  device.achievedTF32 = map.number<double>("tf32", 0, 0.0) * 1e12;
  map.finish();
}

/// A built-in name, or an unknown one refused with the nearest.
static DeviceSpec namedDevice(const YamlMap &map, const YAML::Node &node) {
  if (std::optional<DeviceSpec> device = builtinDevice(node.Scalar()))
    return *device;
  std::string close = nearest(node.Scalar(), builtinDevices());
  map.fail(node, "unknown device: " + node.Scalar() +
                     (close.empty() ? "" : " (did you mean " + close + "?)"));
}

static DeviceSpec readDevice(YamlMap &parent) {
  YAML::Node node = parent.at("device");
  if (node.IsScalar())
    return namedDevice(parent, node);
  YamlMap map(node, parent.fileName(), "device");
  DeviceSpec device;
  bool based = map.has("base");
  if (based)
    device = namedDevice(map, map.at("base"));
  device.name = map.get<std::string>("name", based ? device.name : "device");
  if (!based || map.has("memory_gb"))
    device.memoryBytes = map.within<double>("memory_gb", 1e-3, kMostMemoryGb) * 1e9;
  if (!based || map.has("bandwidth_gbs"))
    device.bandwidth = map.number<double>("bandwidth_gbs", 1e-6) * 1e9;
  device.launchSeconds =
      map.number<double>("launch_us", 0, std::optional(device.launchSeconds * 1e6)) * 1e-6;
  if (map.has("architecture"))
    device.architecture = word(map, "architecture", architectureNames);
  device.multiprocessors = map.count("multiprocessors", 1,
                                               std::optional(device.multiprocessors));
  if ((device.architecture == Architecture::None) != (device.multiprocessors == 0))
    map.fail(node, "architecture and multiprocessors are given together or not at all");
  if (!based || map.has("peak_tflops")) {
    readPeak(map.map("peak_tflops"), device);
    if (device.peak.empty())
      map.fail(map.at("peak_tflops"), "peak_tflops names no type");
  }
  if (map.has("achieved_tflops"))
    readAchieved(map.map("achieved_tflops"), device);
  if (map.has("attention_tflops")) {
    YamlMap rates = map.map("attention_tflops");
    device.attention = {rates.number<double>("forward", 1e-9) * 1e12,
                        rates.number<double>("backward", 1e-9) * 1e12};
    rates.finish();
  }
  map.finish();
  return device;
}

/// What a level may say besides its name and size. Keys that are left out stay
/// as they are in `level`.
static void readLink(YamlMap &map, LinkLevel &level) {
  level.bandwidth = map.number<double>("bandwidth_gbs", 1e-6) * 1e9;
  level.latency = map.number<double>("latency_us", 0, 0.0) * 1e-6;
  for (auto [key, value] : {std::pair("achieved", &level.achieved),
                            std::pair("in_switch", &level.inSwitch)})
    if (map.has(key)) {
      *value = map.number<double>(key, 0);
      if (*value > 1)
        map.fail(map.at(key), std::string(key) + " is a share of the bandwidth, at most 1: " +
                                  map.at(key).Scalar());
    }
  level.alone = map.number<double>("alone_gbs", 0, 0.0) * 1e9;
  if (map.has("ring_gbs")) {
    YamlMap rings = map.map("ring_gbs");
    checkCount(map, "ring_gbs"); // a map of YAML is looked up one by one
    for (auto entry : map.at("ring_gbs")) {
      int64_t ranks = entry.first.as<int64_t>(0);
      if (ranks < 2)
        rings.fail(entry.first, "ring_gbs is by number of ranks: " + entry.first.Scalar());
      level.rings[ranks] = rings.number<double>(entry.first.Scalar(), 1e-6) * 1e9;
    }
  }
  map.finish();
}

static LinkLevel readLevel(YamlMap map, const std::string &name, int64_t size) {
  LinkLevel level;
  level.name = name;
  level.size = size;
  readLink(map, level);
  return level;
}

/// Levels must grow: each joins several of the level below.
static void checkLevels(const YamlMap &map, const YAML::Node &node,
                        const std::vector<LinkLevel> &levels) {
  if (levels.empty())
    map.fail(node, "links is empty");
  if (levels.size() > kMaxLevels)
    map.fail(node, "more than " + std::to_string(kMaxLevels) + " levels of links: " +
                       std::to_string(levels.size()));
  for (size_t i = 1; i < levels.size(); ++i)
    if (levels[i - 1].size == 0 ||
        (levels[i].size != 0 && (levels[i].size <= levels[i - 1].size ||
                                 levels[i].size % levels[i - 1].size != 0)))
      map.fail(node, "a level of links must join several of the one below: " + levels[i].name);
}

static std::vector<LinkLevel> readLevels(YamlMap &map) {
  std::vector<LinkLevel> levels;
  for (YamlMap &link : map.items("links")) {
    LinkLevel level;
    level.name = link.get<std::string>("name", "link");
    level.size = link.count("size", 0, 0);
    readLink(link, level);
    levels.push_back(level);
  }
  checkLevels(map, map.at("links"), levels);
  return levels;
}

/// `node` names a built-in node to start from.
static void readNode(YamlMap &map, Cluster &cluster) {
  if (!map.has("node"))
    return;
  std::string name = map.get<std::string>("node");
  std::optional<Cluster> builtin = builtinCluster(name);
  if (!builtin) {
    std::string close = nearest(name, builtinClusters());
    map.fail(map.at("node"), "unknown node: " + name +
                                 (close.empty() ? "" : " (did you mean " + close + "?)"));
  }
  cluster = *builtin;
}

/// A node that joins a built-in device by the links of its usual node has their
/// measured shares too.
static void takeKnownShares(const DeviceSpec &device, LinkLevel &inside) {
  std::optional<Cluster> usual = builtinCluster(device.name);
  if (!usual || usual->levels.front().bandwidth != inside.bandwidth || inside.achieved > 0 ||
      inside.inSwitch > 0 || !inside.rings.empty())
    return;
  inside.achieved = usual->levels.front().achieved;
  inside.inSwitch = usual->levels.front().inSwitch;
  inside.rings = usual->levels.front().rings;
}

/// `links`: a list of levels, innermost first, or intra_node and inter_node.
static void readLinks(YamlMap &map, Cluster &cluster) {
  if (map.has("links")) {
    cluster.levels = readLevels(map);
    return;
  }
  bool based = !cluster.levels.empty();
  if (!based || map.has("intra_node")) {
    LinkLevel inside =
        readLevel(map.map("intra_node"), "intra_node", cluster.devicesPerNode);
    takeKnownShares(cluster.device, inside);
    if (based)
      cluster.levels.front() = inside;
    else
      cluster.levels = {inside};
  }
  if (map.has("inter_node")) {
    cluster.levels.resize(1);
    if (cluster.devicesPerNode == 0)
      map.fail(map.at("inter_node"), "inter_node needs the key: devices_per_node");
    cluster.levels.push_back(readLevel(map.map("inter_node"), "inter_node", 0));
  }
  cluster.levels.front().size = cluster.levels.size() > 1 ? cluster.devicesPerNode : 0;
}

/// Device, nodes and their hosts: of the cluster itself or of an item of `groups`.
static void readNodes(YamlMap &map, Cluster &cluster) {
  readNode(map, cluster);
  if (cluster.levels.empty() || map.has("device"))
    cluster.device = readDevice(map);
  cluster.devicesPerNode =
      map.count("devices_per_node", 1, std::optional(cluster.devicesPerNode));
  cluster.nodes = map.count("nodes", 1, std::optional(cluster.nodes));
  if (map.has("host_memory_gb"))
    cluster.hostMemoryBytes = map.within<double>("host_memory_gb", 1e-3, kMostMemoryGb) * 1e9;
}

/// One item: {device or node, nodes, devices_per_node, host_memory_gb, intra_node or links}. What
/// joins its nodes to others is the cluster's, also for a built-in node.
static NodeGroup readGroup(YamlMap map) {
  Cluster part;
  readNodes(map, part);
  map.count("nodes", 1);
  if (part.devicesPerNode == 0)
    map.count("devices_per_node", 1);
  if (map.has("inter_node"))
    map.fail(map.at("inter_node"), "inter_node belongs to the cluster, not to one of its groups");
  readLinks(map, part);
  NodeGroup group{part.device, part.devicesPerNode, part.nodes, {}, part.hostMemoryBytes};
  for (LinkLevel level : part.levels) {
    if (part.levels.size() == 1)
      level.size = part.devicesPerNode;
    if (level.size != 0 && level.size <= part.devicesPerNode)
      group.levels.push_back(level);
    else if (map.has("links"))
      map.fail(map.at("links"), "a group's links join the devices of a node: " + level.name);
  }
  map.finish();
  return group;
}

/// The first group is the cluster's own device and nodes.
static void readGroups(YamlMap &root, Cluster &cluster) {
  checkCount(root, "groups"); // their links are checked side by side
  for (YamlMap &group : root.items("groups"))
    cluster.others.push_back(readGroup(group));
  if (cluster.others.empty())
    root.fail(root.at("groups"), "groups is empty");
  NodeGroup first = cluster.others.front();
  cluster.others.erase(cluster.others.begin());
  cluster.device = first.device;
  cluster.devicesPerNode = first.devicesPerNode;
  cluster.nodes = first.nodes;
  cluster.hostMemoryBytes = first.hostMemoryBytes;
  cluster.levels = first.levels;
  if (root.has("links")) {
    for (const LinkLevel &level : readLevels(root))
      cluster.levels.push_back(level);
  } else {
    cluster.levels.push_back(readLevel(root.map("inter_node"), "inter_node", 0));
  }
  checkLevels(root, root.at("groups"), cluster.levels);
  int64_t id = cluster.devicesPerNode * cluster.nodes;
  for (const NodeGroup &group : cluster.others) {
    checkLevels(root, root.at("groups"), cluster.levelsAt(id));
    id += group.devices();
    if (id > kMostDevices)
      root.fail(root.at("groups"), "groups have more than " + std::to_string(kMostDevices) +
                                       " devices: " + std::to_string(id));
  }
}

static void readMeasured(YamlMap map, Cluster &cluster) {
  for (const char *rows : {"contractions", "collectives", "forks"})
    if (map.has(rows))
      checkCount(map, rows); // the planner looks all of them through
  if (map.has("contractions"))
    for (YamlMap &row : map.items("contractions")) {
      cluster.contractions.push_back({word(row, "type", rateNames),
                                      row.number<int64_t>("batch", 1, 1),
                                      row.number<int64_t>("m", 1), row.number<int64_t>("n", 1),
                                      row.number<int64_t>("k", 1),
                                      row.number<double>("seconds", 1e-12)});
      row.finish();
    }
  if (map.has("collectives"))
    for (YamlMap &row : map.items("collectives")) {
      cluster.collectives.push_back({word(row, "kind", collectiveNames),
                                     row.count("ranks", 2),
                                     row.number<int64_t>("bytes", 1),
                                     row.number<double>("seconds", 1e-12)});
      row.finish();
    }
  if (map.has("forks"))
    for (YamlMap &row : map.items("forks")) {
      cluster.forks.push_back(
          {row.count("threads", 2), row.number<double>("seconds", 1e-12)});
      row.finish();
    }
  map.finish();
}

static Cluster readCluster(const YAML::Node &node, const std::string &file,
                           const Software &software) {
  YamlMap root(node, file, "the cluster");
  Cluster cluster;
  if (root.has("groups")) {
    readGroups(root, cluster);
  } else {
    readNodes(root, cluster);
    readLinks(root, cluster);
  }
  cluster.name = root.get<std::string>("name", file);
  cluster.sharedMemory = root.get("shared_memory", cluster.sharedMemory);
  cluster.cores = root.count("cores", 1, std::optional(cluster.cores));
  if (root.has("measured"))
    readMeasured(root.map("measured"), cluster);
  cluster.software = software;
  if (root.has("software"))
    cluster.software = readSoftware(root, software);
  root.finish();
  return cluster;
}

Result<Cluster> clusterFromYaml(const std::string &text, const std::string &file,
                                const Software &software) {
  return readYaml<Cluster>(
      text, file, [&](const YAML::Node &node) { return readCluster(node, file, software); });
}

Result<Cluster> clusterFromYaml(const std::string &text, const std::string &file) {
  return clusterFromYaml(text, file, {});
}

} // namespace dtc::plan
