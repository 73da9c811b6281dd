// A cluster: devices, links, and what was measured on them, as plain data.
//
// Read from YAML, at its smallest
//
//   device: a100-80
//   devices_per_node: 8
//   intra_node: {bandwidth_gbs: 300, latency_us: 5}
//   inter_node: {bandwidth_gbs: 25, latency_us: 10}
//
// or `node: dgx-a100` with `inter_node` and others to override. `device` is a
// built-in name or a map of its own (`base: h100` with what differs). Where
// intra_node has the bandwidth of a built-in device's usual node, the shares
// reached are its too unless they are given. `host_memory_gb` is the memory of a node's
// host, to which states of optimizers can be offloaded; left out, nothing checks that they
// fit there. `links` lists more levels, innermost
// first: {name: leaf, size: 64, ...} joins 64 devices. Several device types are a
// list of node groups, whose devices are numbered one group after the other:
//
//   groups:
//     - {node: dgx-h100, nodes: 2}
//     - {node: dgx-a100, nodes: 4}
//   inter_node: {bandwidth_gbs: 25, latency_us: 10}
//
// `measured` holds tables as `dtc calibrate` writes them, which replace the
// formulas where they reach.
#pragma once

#include "dtc/Plan/Plan/Problem.h"
#include "dtc/Sharding/Reshard.h"

#include <map>

namespace dtc::plan {

/// Of GPUs: what kernels and protocols there are. None: no GPU, one rate per type.
enum class Architecture : uint8_t { None, Volta, Ampere, Ada, Hopper, Blackwell };

/// Of one kernel of attention on heads of 128 numbers in 16 bits, flop/s. Blocks that it computes
/// in full count as such.
struct AttentionRates {
  double forward = 0, backward = 0;
  bool operator==(const AttentionRates &) const = default;
};

struct DeviceSpec {
  std::string name;
  double memoryBytes = 0;
  double bandwidth = 0;             ///< of memory, bytes/s
  std::map<DType, double> peak;     ///< flop/s by operand type
  std::map<DType, double> achieved; ///< of large contractions; a share of the peak where missing
  AttentionRates attention;         ///< measured; 0: a share of the peak by architecture
  double launchSeconds = 0;         ///< of one kernel, launched on its own
  Architecture architecture = Architecture::None;
  int64_t multiprocessors = 0; ///< of GPUs
  double achievedTF32 = 0;     ///< measured, of contractions of fp32 in TF32; 0: not measured
  /// Beside their host's, so that it pays to offload states to that.
  bool hasOwnMemory() const { return multiprocessors > 0; }
  bool operator==(const DeviceSpec &) const = default;
};

/// The most levels of links a cluster may have.
inline constexpr int kMaxLevels = 4;

/// Devices 0..size-1, size..2*size-1, ... are joined by this link.
struct LinkLevel {
  std::string name;
  int64_t size = 0;     ///< devices below one switch of this level; 0: all
  double bandwidth = 0; ///< bytes/s per device and direction
  double latency = 0;   ///< seconds per hop
  /// Share of the bandwidth that long messages reach; 0: the usual one.
  double achieved = 0;
  /// The same for reductions that the switch makes (NVLS, SHARP); 0: it makes none.
  double inSwitch = 0;
  /// Bytes/s of one device while its neighbours are silent (they share a
  /// network card); 0: as `bandwidth`.
  double alone = 0;
  /// Where no switch joins the devices: bytes/s of the rings through so many of them.
  std::map<int64_t, double> rings = {};
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

/// Starting the threads of a rank for one kernel and waiting for the last.
struct MeasuredFork {
  int64_t threads = 0;
  double seconds = 0;
  bool operator==(const MeasuredFork &) const = default;
};

/// What other training programs do differently from ours, for predicting them.
struct Software {
  /// Version of its attention in one kernel, 0: none. Nothing: as in dtc's own programs, whose
  /// libraries take some attention as it is (Cost/AttentionForm.h).
  std::optional<int> flashAttention;
  bool fusedNorm = true, fusedSoftmax = true, compiled = true, overlapCommunication = true;
  bool waitsForKernels = false; ///< the host for each one that it launches
  /// The fused softmax takes batches times heads of a rank that this divides.
  int64_t softmaxMultiple = 1;
  /// Pipeline stages have equally many layers, where these divide.
  bool evenStages = false;
  bool waitsForBatches = false; ///< the device for each microbatch that the host makes ready
  /// Between pipeline stages, by the ranks of a tensor-parallel group, which all hold what
  /// is sent: each sends its part, and the receivers gather.
  bool scattersSends = false;
  /// The interleaved and the zero-bubble schedule go on while they send.
  bool overlapsSends = false;
  bool fusedLoss = true;      ///< else the loss keeps its logits' probabilities in fp32
  bool fusedRotary = true;    ///< else rotary embeddings pass over queries and keys step by step
  /// So many metrics compute the loss of each microbatch once more, from its logits.
  int64_t lossMetrics = 0;
  bool dropout = false;       ///< in attention and before each residual sum: masks are kept
  bool gathersAgain = false;  ///< for the backward pass, what sequence parallelism gathered
  /// Sums of the gradients of products' inputs over tensor-parallel ranks go beside the
  /// gradients of their weights.
  bool asyncInputGradients = false;
  /// Products are computed in parts, beside what gathers and sums up over such ranks.
  bool overlapsProducts = false;
  bool gathersWeights = true; ///< within tensor parallelism, where that moves less
  bool halfGradients = false; ///< in the parameters' type; the update makes an fp32 copy
  /// Each microbatch's stay beside their fp32 sums until the next one's.
  bool keepsHalfGradients = false;
  /// Their fp32 sums are copied to that type to be summed up over ranks, all at a time.
  bool reducesHalfSums = false;
  /// Each half gradient that a rank updates is cast to fp32, to find overflows, and then to
  /// fp64 for the norm.
  bool castsGradients = false;
  /// fp32 tensors as large as all parameters: for the gradients' norm, and then in the update.
  int64_t normTemporaries = 0, updateTemporaries = 0;
  /// Each device has the whole model at first. Its parameters are copied to one tensor,
  /// or split by ZeRO-3; gradients that aren't split are copied to one, too.
  bool flattens = false;
  /// ZeRO-1 sums gradients on all ranks; each then broadcasts the parameters that it owns, one
  /// rank after another.
  bool ownersBroadcast = false;
  /// Of gradients that are copied to be reduced together; 0: they are reduced in place.
  int64_t bucketElements = 0;
  bool lazyLoading = true;    ///< else the code of all kernels is in the device's memory
  bool cachingAllocator = false; ///< PyTorch's; else memory is placed beforehand
  /// Once with zeros, which makes the optimizer's states: they take no more, but an allocator
  /// that caches has them elsewhere.
  bool updatesFirst = false;
  /// Offloaded states are updated by the host's processors; else they pass through the device.
  bool updatesOnHost = false;
  /// Before the first step, as dtc's own programs do: what slots and messages take stays theirs.
  bool placesMemory() const { return compiled && !cachingAllocator; }
  /// Of a rank's batches times heads.
  bool fusesSoftmax(int64_t count) const { return fusedSoftmax && count % softmaxMultiple == 0; }
  bool operator==(const Software &) const = default;
};

/// Nodes of another device type than the cluster's first ones.
struct NodeGroup {
  DeviceSpec device;
  int64_t devicesPerNode = 0, nodes = 0;
  std::vector<LinkLevel> levels; ///< inside a node
  double hostMemoryBytes = 0;    ///< of a node's host; 0: not known
  int64_t devices() const { return devicesPerNode * nodes; }
  bool operator==(const NodeGroup &) const = default;
};

struct Cluster {
  std::string name;
  DeviceSpec device;
  int64_t devicesPerNode = 0;    ///< 0: all in one
  int64_t nodes = 0;             ///< 0: as many as are needed
  double hostMemoryBytes = 0;    ///< of a node's host; 0: not known
  std::vector<LinkLevel> levels; ///< innermost first
  /// Nodes of other types, after `nodes` of the first; levels above theirs are
  /// those of the cluster that join more than a node.
  std::vector<NodeGroup> others;
  std::vector<MeasuredContraction> contractions;
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredFork> forks; ///< of sharedMemory clusters
  Software software;
  /// Ranks are threads of one processor, which share its memory and cores;
  /// `device` then describes one core.
  bool sharedMemory = false;
  int64_t cores = 0; ///< of sharedMemory clusters
  bool operator==(const Cluster &) const = default;

  /// Of all groups; 0: as many as are needed.
  int64_t devices() const;
  /// The type of one device, and the levels of links above it.
  const DeviceSpec &deviceAt(int64_t id) const;
  std::vector<LinkLevel> levelsAt(int64_t id) const;
  /// Index in levelsAt(a) of the lowest level that joins two devices.
  int levelBetween(int64_t a, int64_t b) const;
};

/// A built-in cluster (`cpu`, `dgx-h100`, ...), one of a node of a built-in
/// device (`h100`), or the YAML file of that name.
Result<Cluster> loadCluster(const std::string &nameOrFile);
Result<Cluster> clusterFromYaml(const std::string &text, const std::string &file);
std::string toYaml(const Cluster &cluster);
std::vector<std::string> builtinClusters();
std::vector<std::string> builtinDevices(); ///< each also names the cluster of its usual nodes

} // namespace dtc::plan
