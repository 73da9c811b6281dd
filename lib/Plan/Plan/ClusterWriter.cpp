// Clusters to YAML.
#include "ClusterWords.h"

#include <yaml-cpp/yaml.h>

namespace dtc::plan {

static void write(YAML::Emitter &out, const std::map<DType, double> &rates, double tf32 = 0) {
  out << YAML::Flow << YAML::BeginMap;
  for (auto [type, rate] : rates)
    out << YAML::Key << nameOf(type, rateNames) << YAML::Value << rate / 1e12;
  if (tf32 > 0)
    out << YAML::Key << "tf32" << YAML::Value << tf32 / 1e12;
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
  if (device.architecture != Architecture::None) {
    field(out, "architecture", nameOf(device.architecture, architectureNames));
    field(out, "multiprocessors", device.multiprocessors);
  }
  out << YAML::Key << "peak_tflops" << YAML::Value;
  write(out, device.peak);
  if (!device.achieved.empty()) {
    out << YAML::Key << "achieved_tflops" << YAML::Value;
    write(out, device.achieved, device.achievedTF32);
  }
  if (device.attention.forward > 0 && device.attention.backward > 0) {
    out << YAML::Key << "attention_tflops" << YAML::Value << YAML::Flow << YAML::BeginMap;
    field(out, "forward", device.attention.forward / 1e12);
    field(out, "backward", device.attention.backward / 1e12);
    out << YAML::EndMap;
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
    out << YAML::Key << "seconds" << YAML::Value << YAML::DoublePrecision(17) << row.seconds;
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "collectives" << YAML::Value << YAML::BeginSeq;
  for (const MeasuredCollective &row : cluster.collectives) {
    out << YAML::Flow << YAML::BeginMap;
    field(out, "kind", nameOf(row.kind, collectiveNames));
    field(out, "ranks", row.ranks);
    field(out, "bytes", row.bytes);
    out << YAML::Key << "seconds" << YAML::Value << YAML::DoublePrecision(17) << row.seconds;
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "forks" << YAML::Value << YAML::BeginSeq;
  for (const MeasuredFork &row : cluster.forks) {
    out << YAML::Flow << YAML::BeginMap;
    field(out, "threads", row.threads);
    out << YAML::Key << "seconds" << YAML::Value << YAML::DoublePrecision(17) << row.seconds;
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
}

static void writeSoftware(YAML::Emitter &out, const Software &software) {
  out << YAML::Flow << YAML::BeginMap;
  if (software.flashAttention)
    field(out, "flash_attention", *software.flashAttention);
  field(out, "fused_norm", software.fusedNorm);
  field(out, "fused_softmax", software.fusedSoftmax);
  field(out, "compiled", software.compiled);
  field(out, "overlap_communication", software.overlapCommunication);
  field(out, "waits_for_kernels", software.waitsForKernels);
  field(out, "softmax_multiple", software.softmaxMultiple);
  field(out, "even_stages", software.evenStages);
  field(out, "waits_for_batches", software.waitsForBatches);
  field(out, "scatters_sends", software.scattersSends);
  field(out, "overlaps_sends", software.overlapsSends);
  field(out, "fused_loss", software.fusedLoss);
  field(out, "fused_rotary", software.fusedRotary);
  field(out, "loss_metrics", software.lossMetrics);
  field(out, "dropout", software.dropout);
  field(out, "gathers_again", software.gathersAgain);
  field(out, "async_input_gradients", software.asyncInputGradients);
  field(out, "overlaps_products", software.overlapsProducts);
  field(out, "gathers_weights", software.gathersWeights);
  field(out, "half_gradients", software.halfGradients);
  field(out, "keeps_half_gradients", software.keepsHalfGradients);
  field(out, "reduces_half_sums", software.reducesHalfSums);
  field(out, "casts_gradients", software.castsGradients);
  field(out, "norm_temporaries", software.normTemporaries);
  field(out, "flattens", software.flattens);
  field(out, "update_temporaries", software.updateTemporaries);
  field(out, "owners_broadcast", software.ownersBroadcast);
  field(out, "bucket_elements", software.bucketElements);
  field(out, "lazy_loading", software.lazyLoading);
  field(out, "updates_first", software.updatesFirst);
  field(out, "updates_on_host", software.updatesOnHost);
  field(out, "caching_allocator", software.cachingAllocator);
  out << YAML::EndMap;
}

static void write(YAML::Emitter &out, const std::vector<LinkLevel> &levels) {
  out << YAML::BeginSeq;
  for (const LinkLevel &level : levels) {
    out << YAML::Flow << YAML::BeginMap;
    field(out, "name", level.name);
    field(out, "size", level.size);
    field(out, "bandwidth_gbs", level.bandwidth / 1e9);
    field(out, "latency_us", level.latency * 1e6);
    if (level.achieved > 0)
      field(out, "achieved", level.achieved);
    if (level.inSwitch > 0)
      field(out, "in_switch", level.inSwitch);
    if (level.alone > 0)
      field(out, "alone_gbs", level.alone / 1e9);
    if (!level.rings.empty()) {
      out << YAML::Key << "ring_gbs" << YAML::Value << YAML::BeginMap;
      for (auto [ranks, bandwidth] : level.rings)
        out << YAML::Key << ranks << YAML::Value << bandwidth / 1e9;
      out << YAML::EndMap;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

static void writeHostMemory(YAML::Emitter &out, double bytes) {
  if (bytes > 0)
    field(out, "host_memory_gb", bytes / 1e9);
}

static void write(YAML::Emitter &out, const NodeGroup &group) {
  out << YAML::BeginMap << YAML::Key << "device" << YAML::Value;
  write(out, group.device);
  field(out, "devices_per_node", group.devicesPerNode);
  field(out, "nodes", group.nodes);
  writeHostMemory(out, group.hostMemoryBytes);
  out << YAML::Key << "links" << YAML::Value;
  write(out, group.levels);
  out << YAML::EndMap;
}

/// Levels inside a node belong to its group, the others to the cluster.
static void writeGroups(YAML::Emitter &out, const Cluster &cluster) {
  NodeGroup first{cluster.device, cluster.devicesPerNode, cluster.nodes, {},
                  cluster.hostMemoryBytes};
  std::vector<LinkLevel> outer;
  for (const LinkLevel &level : cluster.levels)
    (level.size != 0 && level.size <= cluster.devicesPerNode ? first.levels : outer)
        .push_back(level);
  out << YAML::Key << "groups" << YAML::Value << YAML::BeginSeq;
  write(out, first);
  for (const NodeGroup &group : cluster.others)
    write(out, group);
  out << YAML::EndSeq << YAML::Key << "links" << YAML::Value;
  write(out, outer);
}

static void writeNodes(YAML::Emitter &out, const Cluster &cluster) {
  out << YAML::Key << "device" << YAML::Value;
  write(out, cluster.device);
  if (cluster.devicesPerNode)
    field(out, "devices_per_node", cluster.devicesPerNode);
  if (cluster.nodes)
    field(out, "nodes", cluster.nodes);
  writeHostMemory(out, cluster.hostMemoryBytes);
  out << YAML::Key << "links" << YAML::Value;
  write(out, cluster.levels);
}

std::string toYaml(const Cluster &cluster) {
  YAML::Emitter out;
  out.SetDoublePrecision(15); // units change: the last digits are rounding
  out << YAML::BeginMap;
  field(out, "name", cluster.name);
  if (cluster.others.empty())
    writeNodes(out, cluster);
  else
    writeGroups(out, cluster);
  if (cluster.sharedMemory)
    field(out, "shared_memory", true);
  if (cluster.cores)
    field(out, "cores", cluster.cores);
  if (!cluster.contractions.empty() || !cluster.collectives.empty() || !cluster.forks.empty()) {
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
