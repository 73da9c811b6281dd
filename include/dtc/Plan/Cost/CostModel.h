// Seconds and bytes of one device: what an op, a collective or a transfer
// takes, and how much memory is left to a program.
//
// GPUs (devices with multiprocessors) are modelled from their data sheet. Contractions are computed
// by tiles and waves, memory-bound kernels at an achieved share of the bandwidth. Collectives
// depend on the level of links, the algorithm and the protocol, as NCCL chooses them.
// docs/CostModel.md has the formulas, constants and their errors. Other devices have one rate per
// type and one line per level of links. Tables in the cluster replace the formulas where they
// reach.
//
// Take 8 GPUs in two nodes of 4 on <dp=2, tp=4>. A group of {tp} has 4 ranks in one node. The four
// groups of {dp} have one rank in each of two nodes and run at once, each on its share of the
// network. Let links have 50 GB/s and 1 us in a node, and 10 GB/s and 10 us between nodes. A device
// has 0.5 TFLOP/s and 100 GB/s of memory, and starts a kernel in 1 us (CostModelTest.cpp). Then
//
//   an op of 1 GFLOP on   1 MB     2.001 ms   computing takes longer
//   an op of 1 GFLOP on   1 GB    10.001 ms   moving takes longer
//   all-reduce of 50 MB over tp    1.504 ms   2 * 3/4 * 50 MB at 50 GB/s, and four latencies
//   all-reduce of 50 MB over dp    5.020 ms   2 * 1/2 * 50 MB at 10 GB/s, and two latencies
#pragma once

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Simulate/OverlapSlowdown.h"

#include <array>
#include <memory>

namespace dtc::plan {

class KernelModel;
class NetworkModel;
class MeasuredTables;

/// What an op does on one device.
struct LocalWork {
  double flops = 0;
  double bytes = 0; ///< read and written in memory
  DType type = DType::F32;
  int64_t kernels = 1; ///< launched; 0: none (fused, or a view)
  /// Sizes of the contraction as a matrix product: batch * (m x k) * (k x n). Of attention: batch *
  /// heads, queries, keys, head size. 0: unknown.
  int64_t batch = 0, m = 0, n = 0, k = 0;
  bool grouped = false; ///< a product that dtc's own kernel makes, and no library
  bool attention = false;
  bool causal = false;   ///< of attention: half of the products can be skipped
  int64_t window = 0;    ///< of causal attention: keys that a query sees; 0: all up to its own
  bool backward = false; ///< of attention
  bool biased = false;   ///< attention adds a tensor to its scores
  bool decomposed = false; ///< as Op::decomposed
  int64_t passes = 0;      ///< of attention and products: kernels beside those of the library
  double passedBytes = 0; ///< read and written by these
};

/// The share of a library's rate that dtc's own products have. No GPU has timed them: they have
/// mma.sync and two stages in memory, libraries have what each GPU is fastest with.
inline constexpr double kGroupedShare = 0.5;

/// Products and attention are timed alone. Within training steps, one kernel after the other at the
/// power limit, a GPU keeps up this share of their rate (docs/CostModel.md).
double sustainedShare(Architecture architecture);

/// The rate of AttentionRates from a measured kernel, as the cost model reads it.
double attentionRate(const LocalWork &work, int64_t multiprocessors, double seconds);

/// How the ranks of one group lie in the cluster; all groups of its kind in the
/// mesh communicate at once.
struct GroupShape {
  int64_t ranks = 1;
  int level = 0; ///< index of the lowest level of links that joins all of them
  /// Ranks of the group below one switch of each level: {8, 16, 16} of 16 ranks
  /// in two nodes of one rack.
  std::array<int64_t, kMaxLevels> inside = {1, 1, 1, 1};
  bool operator==(const GroupShape &) const = default;
};

using simulate::OverlapSlowdown;

/// A transfer of b bytes takes latency + b / bandwidth seconds.
struct PointToPoint {
  double latency = 0, bandwidth = 0;
};

/// Bytes of a device that hold no tensors. nvidia-smi shows all of them, PyTorch
/// counts the workspace alone.
struct MemoryReserve {
  double context = 0, workspace = 0, communicators = 0;
};

/// Devices of one stage, numbered in the cluster from `first`.
struct DeviceRange {
  int64_t first = 0, count = 0; ///< count 0: all ranks
};

class CostModel {
public:
  /// `ranks`: how many devices of the cluster the plan uses. Where the cluster
  /// has several device types, times are of the slowest device of `stage`, and
  /// meshes lie on its devices in order.
  CostModel(const Cluster &cluster, int64_t ranks, DeviceRange stage = {});
  ~CostModel();
  CostModel(CostModel &&) noexcept;

  double opSeconds(const LocalWork &work) const;
  /// What the host takes to launch so many kernels, while the device works on what
  /// was launched before: a pass takes the longer of both. 0 for compiled programs.
  double hostSeconds(int64_t kernels) const;
  /// Seconds to stream `bytes` through memory in one kernel, e.g. the optimizer.
  double streamSeconds(double bytes) const;
  /// Seconds to add up `terms` gradients of one microbatch, of `bytes` each.
  double gradientSumSeconds(double bytes, size_t terms) const;
  /// Seconds to add a microbatch's gradients of `bytes` to those of earlier ones. What makes a
  /// gradient adds it to them (a product with beta = 1), and reads them on top of what it does
  /// anyway. What is `scattered` first is added afterwards, and processors always do so.
  double accumulationSeconds(double bytes, bool scattered) const;
  /// Time that a kernel takes beside its work: its call and, on a processor, the
  /// start and end of the rank's threads.
  double launchSeconds() const;
  /// What the launches for the gradients' norm and the update of so many tensors take beside their
  /// work. dtc's own kernels for GPUs do many tensors each, and follow each other in a graph.
  double updateLaunchSeconds(double tensors) const;

  /// `bytes` as in sharding::stepBytes. Slices are local copies.
  double collectiveSeconds(sharding::StepKind kind, const sharding::AxisList &axes,
                           double bytes, const sharding::Mesh &mesh) const;
  double collectiveSeconds(sharding::StepKind kind, const GroupShape &group, double bytes) const;
  GroupShape groupShape(const sharding::AxisList &axes, const sharding::Mesh &mesh) const;

  /// One transfer between two devices of the cluster. The neighbours of the sender transfer as much
  /// meanwhile, as all ranks of a stage send to the next one.
  double p2pSeconds(double bytes, int64_t fromDevice, int64_t toDevice) const;
  /// The same over the links of level `level`, while `senders` devices of a node send at once (0:
  /// all). It is latency + bytes / bandwidth of p2pLink.
  double levelSeconds(double bytes, int level, int64_t senders = 0) const;
  PointToPoint p2pLink(int level, int64_t senders = 0) const;
  /// Index of the lowest level of links that joins two devices.
  int levelBetween(int64_t a, int64_t b) const;

  /// While kernels run beside a collective or transfer over this level; 1 where
  /// the software doesn't overlap them (the caller then adds the times).
  OverlapSlowdown overlapSlowdown(int level) const;
  OverlapSlowdown ringSlowdown(int level) const; ///< the same, whatever the software
  bool overlapsCommunication() const { return cluster.software.overlapCommunication; }

  /// Memory of one rank's device (of a shared processor: its part).
  double memoryPerRank() const;
  /// Of that, what is gone before the first tensor. It is the device context with the libraries'
  /// code, their workspace, and the buffers of `communicators` groups that the rank is a member of.
  double reservedBytes(int64_t communicators) const;
  MemoryReserve reserve(int64_t communicators) const; ///< the same, in parts
  /// memoryPerRank less reservedBytes.
  double availableBytes(int64_t communicators) const;

  double peakFlops(DType type) const;
  const DeviceSpec &device() const { return spec; }
  bool isOwnProgram() const { return own; } ///< AttentionForm.h; asked for each op
  /// Of a processor whose cores the ranks share.
  int64_t threadsPerRank() const;
  const Cluster &getCluster() const { return cluster; }

private:
  double measuredRate(const LocalWork &work) const;
  double flatSeconds(const LocalWork &work) const;

  Cluster cluster;
  DeviceSpec spec; ///< of the stage
  bool own = false; ///< isOwnProgram
  int64_t ranks;
  DeviceRange stage;
  double share = 1; ///< time of a rank relative to one core of a shared processor
  std::unique_ptr<MeasuredTables> measured;
  std::unique_ptr<KernelModel> kernels; ///< of GPUs
  std::unique_ptr<NetworkModel> network;
};

} // namespace dtc::plan
