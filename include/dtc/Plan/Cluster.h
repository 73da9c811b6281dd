// A cluster: devices, links, and what was measured on them, as plain data.
//
// Read from YAML, at its smallest
//
//   device: a100-80
//   devices_per_node: 8
//   intra_node: {bandwidth_gbs: 300, latency_us: 5}
//   inter_node: {bandwidth_gbs: 25, latency_us: 10}
//
// `device` is a built-in name or a map of its own; `measured` holds tables as
// `dtc calibrate` writes them, which replace the formulas where they reach.
#pragma once

#include "dtc/Plan/Problem.h"
#include "dtc/Sharding/Reshard.h"

#include <map>

namespace dtc::plan {

struct DeviceSpec {
  std::string name;
  double memoryBytes = 0;
  double bandwidth = 0;             ///< of memory, bytes/s
  std::map<DType, double> peak;     ///< flop/s by operand type
  std::map<DType, double> achieved; ///< of large contractions; a share of the peak where missing
  double launchSeconds = 0;         ///< of one kernel
  bool operator==(const DeviceSpec &) const = default;
};

/// Devices 0..size-1, size..2*size-1, ... are joined by this link.
struct LinkLevel {
  std::string name;
  int64_t size = 0; ///< devices below one switch of this level; 0: all
  double bandwidth = 0; ///< bytes/s per device and direction
  double latency = 0;   ///< seconds per hop
  bool operator==(const LinkLevel &) const = default;
};

/// One measured contraction: batch * (m x k) * (k x n).
struct MeasuredContraction {
  DType type = DType::F32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  double seconds = 0;
  bool operator==(const MeasuredContraction &) const = default;
};

/// One measured collective; `bytes` is the buffer that the call is made with
/// (sharding::stepBytes).
struct MeasuredCollective {
  sharding::StepKind kind = sharding::StepKind::AllReduce;
  int64_t ranks = 0;
  int64_t bytes = 0;
  double seconds = 0;
  bool operator==(const MeasuredCollective &) const = default;
};

/// What other training programs do differently from ours, for predicting them.
struct Software {
  int flashAttention = 3; ///< version, 0: none
  bool fusedNorm = true, fusedSoftmax = true, compiled = true, overlapCommunication = true;
  bool operator==(const Software &) const = default;
};

struct Cluster {
  std::string name;
  DeviceSpec device;
  int64_t devicesPerNode = 0; ///< 0: all in one
  int64_t nodes = 0;          ///< 0: as many as are needed
  std::vector<LinkLevel> levels; ///< innermost first
  std::vector<MeasuredContraction> contractions;
  std::vector<MeasuredCollective> collectives;
  Software software;
  /// Ranks are threads of one processor, which share its memory and cores;
  /// `device` then describes one core.
  bool sharedMemory = false;
  int64_t cores = 0; ///< of sharedMemory clusters
  bool operator==(const Cluster &) const = default;
};

/// A built-in cluster (`cpu`, `dgx-h100`, ...), one of a node of a built-in
/// device (`h100`), or the YAML file of that name.
Result<Cluster> loadCluster(const std::string &nameOrFile);
Result<Cluster> clusterFromYaml(const std::string &text, const std::string &file);
std::string toYaml(const Cluster &cluster);
std::vector<std::string> builtinClusters();

} // namespace dtc::plan
