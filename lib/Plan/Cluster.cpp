// Clusters from and to YAML.
#include "dtc/Plan/Cluster.h"

#include "ClusterCatalog.h"
#include "YamlReader.h"

#include <fstream>
#include <sstream>

namespace dtc::plan {

using sharding::StepKind;

static const std::vector<std::pair<DType, std::string>> rateNames = {
    {DType::F64, "fp64"}, {DType::F32, "fp32"}, {DType::BF16, "bf16"}, {DType::F16, "fp16"}};

static const std::vector<std::pair<StepKind, std::string>> collectiveNames = {
    {StepKind::AllReduce, "all_reduce"},
    {StepKind::ReduceScatter, "reduce_scatter"},
    {StepKind::AllGather, "all_gather"},
    {StepKind::AllToAll, "all_to_all"},
    {StepKind::Permute, "permute"},
    {StepKind::Slice, "slice"}};

template <typename Enum>
static Enum word(YamlMap &map, const std::string &key,
                 const std::vector<std::pair<Enum, std::string>> &names) {
  auto text = map.get<std::string>(key);
  for (const auto &[value, name] : names)
    if (text == name)
      return value;
  map.fail(map.at(key), "unknown " + key + ": " + text);
}

template <typename Enum>
static const std::string &nameOf(Enum value,
                                 const std::vector<std::pair<Enum, std::string>> &names) {
  return std::find_if(names.begin(), names.end(), [&](auto &n) { return n.first == value; })
      ->second;
}

//===-- reading -----------------------------------------------------------===//

static std::map<DType, double> readRates(YamlMap map) {
  std::map<DType, double> rates;
  for (const auto &[type, name] : rateNames)
    if (map.has(name))
      rates[type] = map.number<double>(name, 0) * 1e12;
  map.finish();
  return rates;
}

static DeviceSpec readDevice(YamlMap &root) {
  YAML::Node node = root.at("device");
  if (node.IsScalar()) {
    if (std::optional<DeviceSpec> device = builtinDevice(node.Scalar()))
      return *device;
    std::string close = nearest(node.Scalar(), builtinDevices());
    root.fail(node, "unknown device: " + node.Scalar() +
                        (close.empty() ? "" : " (did you mean " + close + "?)"));
  }
  YamlMap map(node, root.fileName(), "device");
  DeviceSpec device;
  device.name = map.get<std::string>("name", "device");
  device.memoryBytes = map.number<double>("memory_gb", 1e-3) * 1e9;
  device.bandwidth = map.number<double>("bandwidth_gbs", 1e-6) * 1e9;
  device.launchSeconds = map.number<double>("launch_us", 0, 0.0) * 1e-6;
  device.peak = readRates(map.map("peak_tflops"));
  if (device.peak.empty())
    map.fail(map.at("peak_tflops"), "peak_tflops names no type");
  if (map.has("achieved_tflops"))
    device.achieved = readRates(map.map("achieved_tflops"));
  map.finish();
  return device;
}

static LinkLevel readLink(YamlMap map, const std::string &name, int64_t size) {
  LinkLevel level;
  level.name = name;
  level.size = size;
  level.bandwidth = map.number<double>("bandwidth_gbs", 1e-6) * 1e9;
  level.latency = map.number<double>("latency_us", 0, 0.0) * 1e-6;
  map.finish();
  return level;
}

/// `links`: a list of levels, innermost first, or intra_node and inter_node.
static void readLinks(YamlMap &root, Cluster &cluster) {
  if (!root.has("links")) {
    cluster.levels.push_back(
        readLink(root.map("intra_node"), "intra_node", cluster.devicesPerNode));
    if (root.has("inter_node"))
      cluster.levels.push_back(readLink(root.map("inter_node"), "inter_node", 0));
    else
      cluster.levels.back().size = 0;
    return;
  }
  for (const YAML::Node &item : root.at("links")) {
    YamlMap map(item, root.fileName(), "links");
    auto name = map.get<std::string>("name", "link");
    auto size = map.number<int64_t>("size", 0, 0);
    map.get<double>("bandwidth_gbs");
    LinkLevel level{name, size, map.number<double>("bandwidth_gbs", 1e-6) * 1e9,
                    map.number<double>("latency_us", 0, 0.0) * 1e-6};
    map.finish();
    cluster.levels.push_back(level);
  }
  if (cluster.levels.empty())
    root.fail(root.at("links"), "links is empty");
}

static void readMeasured(YamlMap map, Cluster &cluster) {
  if (map.has("contractions"))
    for (const YAML::Node &item : map.at("contractions")) {
      YamlMap row(item, map.fileName(), "contractions");
      cluster.contractions.push_back({word(row, "type", rateNames),
                                      row.number<int64_t>("batch", 1, 1),
                                      row.number<int64_t>("m", 1), row.number<int64_t>("n", 1),
                                      row.number<int64_t>("k", 1),
                                      row.number<double>("seconds", 1e-12)});
      row.finish();
    }
  if (map.has("collectives"))
    for (const YAML::Node &item : map.at("collectives")) {
      YamlMap row(item, map.fileName(), "collectives");
      cluster.collectives.push_back({word(row, "kind", collectiveNames),
                                     row.number<int64_t>("ranks", 2),
                                     row.number<int64_t>("bytes", 1),
                                     row.number<double>("seconds", 1e-12)});
      row.finish();
    }
  map.finish();
}

/// A flag or a version: true means the newest.
static Software readSoftware(YamlMap map) {
  Software software;
  if (map.has("flash_attention")) {
    std::string text = map.at("flash_attention").Scalar();
    if (text == "true" || text == "false")
      software.flashAttention = text == "true" ? 3 : 0;
    else
      software.flashAttention = map.number<int>("flash_attention", 0);
  }
  software.fusedNorm = map.get("fused_norm", true);
  software.fusedSoftmax = map.get("fused_softmax", true);
  software.compiled = map.get("compiled", true);
  software.overlapCommunication = map.get("overlap_communication", true);
  map.finish();
  return software;
}

static Cluster readCluster(const YAML::Node &node, const std::string &file) {
  YamlMap root(node, file, "the cluster");
  Cluster cluster;
  cluster.name = root.get<std::string>("name", file);
  cluster.device = readDevice(root);
  cluster.devicesPerNode = root.number<int64_t>("devices_per_node", 1, 0);
  cluster.nodes = root.number<int64_t>("nodes", 1, 0);
  cluster.sharedMemory = root.get("shared_memory", false);
  cluster.cores = root.number<int64_t>("cores", 1, 0);
  readLinks(root, cluster);
  if (root.has("measured"))
    readMeasured(root.map("measured"), cluster);
  if (root.has("software"))
    cluster.software = readSoftware(root.map("software"));
  root.finish();
  return cluster;
}

Result<Cluster> clusterFromYaml(const std::string &text, const std::string &file) {
  return readYaml<Cluster>(text, file,
                           [&](const YAML::Node &node) { return readCluster(node, file); });
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

//===-- writing -----------------------------------------------------------===//

static void write(YAML::Emitter &out, const std::map<DType, double> &rates) {
  out << YAML::Flow << YAML::BeginMap;
  for (auto [type, rate] : rates)
    out << YAML::Key << nameOf(type, rateNames) << YAML::Value << rate / 1e12;
  out << YAML::EndMap;
}

template <typename T> static void field(YAML::Emitter &out, const char *key, const T &value) {
  out << YAML::Key << key << YAML::Value << value;
}

static void write(YAML::Emitter &out, const DeviceSpec &device) {
  out << YAML::BeginMap;
  field(out, "name", device.name);
  field(out, "memory_gb", device.memoryBytes / 1e9);
  field(out, "bandwidth_gbs", device.bandwidth / 1e9);
  field(out, "launch_us", device.launchSeconds * 1e6);
  out << YAML::Key << "peak_tflops" << YAML::Value;
  write(out, device.peak);
  if (!device.achieved.empty()) {
    out << YAML::Key << "achieved_tflops" << YAML::Value;
    write(out, device.achieved);
  }
  out << YAML::EndMap;
}

static void writeMeasured(YAML::Emitter &out, const Cluster &cluster) {
  out << YAML::BeginMap << YAML::Key << "contractions" << YAML::Value << YAML::BeginSeq;
  for (const MeasuredContraction &row : cluster.contractions) {
    out << YAML::Flow << YAML::BeginMap;
    field(out, "type", nameOf(row.type, rateNames));
    field(out, "batch", row.batch);
    field(out, "m", row.m);
    field(out, "n", row.n);
    field(out, "k", row.k);
    field(out, "seconds", row.seconds);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "collectives" << YAML::Value << YAML::BeginSeq;
  for (const MeasuredCollective &row : cluster.collectives) {
    out << YAML::Flow << YAML::BeginMap;
    field(out, "kind", nameOf(row.kind, collectiveNames));
    field(out, "ranks", row.ranks);
    field(out, "bytes", row.bytes);
    field(out, "seconds", row.seconds);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
}

static void writeSoftware(YAML::Emitter &out, const Software &software) {
  out << YAML::Flow << YAML::BeginMap;
  field(out, "flash_attention", software.flashAttention);
  field(out, "fused_norm", software.fusedNorm);
  field(out, "fused_softmax", software.fusedSoftmax);
  field(out, "compiled", software.compiled);
  field(out, "overlap_communication", software.overlapCommunication);
  out << YAML::EndMap;
}

std::string toYaml(const Cluster &cluster) {
  YAML::Emitter out;
  out.SetDoublePrecision(17);
  out << YAML::BeginMap;
  field(out, "name", cluster.name);
  out << YAML::Key << "device" << YAML::Value;
  write(out, cluster.device);
  if (cluster.devicesPerNode)
    field(out, "devices_per_node", cluster.devicesPerNode);
  if (cluster.nodes)
    field(out, "nodes", cluster.nodes);
  if (cluster.sharedMemory)
    field(out, "shared_memory", true);
  if (cluster.cores)
    field(out, "cores", cluster.cores);
  out << YAML::Key << "links" << YAML::Value << YAML::BeginSeq;
  for (const LinkLevel &level : cluster.levels) {
    out << YAML::Flow << YAML::BeginMap;
    field(out, "name", level.name);
    field(out, "size", level.size);
    field(out, "bandwidth_gbs", level.bandwidth / 1e9);
    field(out, "latency_us", level.latency * 1e6);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
  if (!cluster.contractions.empty() || !cluster.collectives.empty()) {
    out << YAML::Key << "measured" << YAML::Value;
    writeMeasured(out, cluster);
  }
  if (!(cluster.software == Software())) {
    out << YAML::Key << "software" << YAML::Value;
    writeSoftware(out, cluster.software);
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

} // namespace dtc::plan
