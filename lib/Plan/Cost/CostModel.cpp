#include "dtc/Plan/Cost/CostModel.h"

#include "KernelModel.h"
#include "MeasuredTables.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Cost/NetworkModel.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;
using sharding::Mesh;
using sharding::StepKind;

/// Of the devices of a stage, the one that all others wait for; with the least
/// of their memories.
static DeviceSpec slowest(const Cluster &cluster, DeviceRange stage) {
  DeviceSpec worst = cluster.deviceAt(stage.first);
  double memory = worst.memoryBytes;
  for (int64_t id = stage.first; !cluster.others.empty() && id < stage.first + stage.count; ++id) {
    const DeviceSpec &device = cluster.deviceAt(id);
    memory = std::min(memory, device.memoryBytes);
    if (achievedFlops(device, DType::BF16) < achievedFlops(worst, DType::BF16))
      worst = device;
  }
  worst.memoryBytes = memory;
  return worst;
}

CostModel::CostModel(const Cluster &c, int64_t ranks, DeviceRange range)
    : cluster(c), ranks(ranks), stage(range) {
  if (stage.count == 0)
    stage = {0, ranks};
  spec = slowest(cluster, stage);
  own = plan::isOwnProgram(spec, cluster.software);
  measured = std::make_unique<MeasuredTables>(cluster);
  network = std::make_unique<NetworkModel>(cluster.levelsAt(stage.first), spec, ranks);
  if (spec.architecture != Architecture::None)
    kernels = std::make_unique<KernelModel>(spec, cluster.software);
  if (!cluster.sharedMemory || cluster.cores < 1)
    return;
  // A rank has whole cores, or several ranks share one.
  const int64_t whole = cluster.cores / ranks;
  share = whole > 0 ? 1.0 / double(whole) : double(ranks) / double(cluster.cores);
}

CostModel::~CostModel() = default;
CostModel::CostModel(CostModel &&) noexcept = default;

//===-- memory ------------------------------------------------------------===//

int64_t CostModel::threadsPerRank() const {
  return cluster.sharedMemory ? std::max<int64_t>(1, cluster.cores / ranks) : 1;
}

double CostModel::memoryPerRank() const {
  return cluster.sharedMemory ? spec.memoryBytes / double(ranks) : spec.memoryBytes;
}

/// Of a GPU: the context with the code of the kernels that are used, the
/// workspace of the matrix library. NCCL keeps a buffer of each protocol (4 MiB
/// Simple, 4.7 MiB LL128, 0.5 MiB LL) for each channel and neighbour.
static constexpr double kContextBytes = 500e6, kWorkspaceBytes = 64e6;
/// The same where all kernels of the libraries are loaded at once, as before CUDA
/// 11.7: 1271 MiB of a V100, 1573 MiB of an A100 (BigScience's notes).
static constexpr double kEagerContextBytes = 1500e6;
static constexpr double kProtocolBytes = 9.6e6, kChannels = 16, kNeighbours = 2;

MemoryReserve CostModel::reserve(int64_t communicators) const {
  if (!kernels)
    return {};
  return {cluster.software.lazyLoading ? kContextBytes : kEagerContextBytes, kWorkspaceBytes,
          kProtocolBytes * kChannels * kNeighbours * double(communicators)};
}

double CostModel::reservedBytes(int64_t communicators) const {
  MemoryReserve reserved = reserve(communicators);
  return reserved.context + reserved.workspace + reserved.communicators;
}

double CostModel::availableBytes(int64_t communicators) const {
  return memoryPerRank() - reservedBytes(communicators);
}

//===-- ops ---------------------------------------------------------------===//

double CostModel::peakFlops(DType type) const { return plan::peakFlops(spec, type); }

/// Of a product among those in the cluster's table; 0: not measured.
double CostModel::measuredRate(const LocalWork &work) const {
  return work.m > 0 && !work.attention
             ? measured->rate(work.type, work.batch, work.m, work.n, work.k) : 0;
}

double CostModel::flatSeconds(const LocalWork &work) const {
  double rate = measuredRate(work);
  if (rate <= 0)
    rate = achievedFlops(spec, work.type);
  double compute = work.flops > 0 ? work.flops / rate : 0;
  if (work.grouped)
    compute /= kGroupedShare;
  return share *
             (std::max(compute, work.bytes / spec.bandwidth) + work.passedBytes / spec.bandwidth) +
         double(work.kernels + work.passes) * launchSeconds();
}

double CostModel::opSeconds(const LocalWork &work) const {
  return kernels ? kernels->seconds(work, measuredRate(work)) : flatSeconds(work);
}

double CostModel::hostSeconds(int64_t count) const {
  return kernels ? kernels->hostSeconds(count) : 0;
}

double CostModel::streamSeconds(double bytes) const {
  return kernels ? kernels->streamSeconds(bytes) : share * bytes / spec.bandwidth;
}

double CostModel::gradientSumSeconds(double bytes, size_t terms) const {
  return streamSeconds(bytes * double(terms + 1));
}

double CostModel::accumulationSeconds(double bytes, bool scattered) const {
  bool fused = !scattered && !cluster.sharedMemory;
  return fused ? streamSeconds(bytes) : gradientSumSeconds(bytes, 2);
}

double CostModel::launchSeconds() const {
  return spec.launchSeconds + measured->forkSeconds(threadsPerRank());
}

double CostModel::updateLaunchSeconds(double tensors) const {
  constexpr double kLaunches = 2; // the norm, the update
  const double each = kernels && own
                          ? kernels->launchSecondsOfTensor()
                          : launchSeconds();
  return kLaunches * tensors * each;
}

//===-- communication -----------------------------------------------------===//

GroupShape CostModel::groupShape(const AxisList &axes, const Mesh &mesh) const {
  return network->shape(axes, mesh);
}

double CostModel::collectiveSeconds(StepKind kind, const AxisList &axes, double bytes,
                                    const Mesh &mesh) const {
  return collectiveSeconds(kind, groupShape(axes, mesh), bytes);
}

double CostModel::collectiveSeconds(StepKind kind, const GroupShape &group, double bytes) const {
  if (group.ranks <= 1)
    return 0;
  if (kind == StepKind::Slice)
    return streamSeconds(2 * bytes / double(group.ranks));
  if (double seconds = measured->collectiveSeconds(kind, group.ranks, bytes); seconds > 0)
    return seconds;
  return network->seconds(kind, group, bytes);
}

int CostModel::levelBetween(int64_t a, int64_t b) const { return cluster.levelBetween(a, b); }

double CostModel::p2pSeconds(double bytes, int64_t from, int64_t to) const {
  return from == to ? 0 : levelSeconds(bytes, levelBetween(from, to));
}

PointToPoint CostModel::p2pLink(int level, int64_t senders) const {
  return network->link(level, senders);
}

double CostModel::levelSeconds(double bytes, int level, int64_t senders) const {
  PointToPoint link = p2pLink(level, senders);
  return bytes > 0 ? link.latency + bytes / link.bandwidth : 0;
}

OverlapSlowdown CostModel::overlapSlowdown(int level) const {
  return overlapsCommunication() ? ringSlowdown(level) : OverlapSlowdown{};
}

OverlapSlowdown CostModel::ringSlowdown(int level) const {
  if (!kernels)
    return {2, 2}; // both take the same cores
  // A ring takes a multiprocessor for each channel, and through network cards about half as many as
  // inside a node. Both sides wait for memory more often. Of a small device it leaves half to other
  // kernels.
  auto multiprocessors = double(spec.multiprocessors);
  double channels = std::min(level == 0 ? kChannels : kChannels / 2, multiprocessors / 2);
  return {multiprocessors / (multiprocessors - channels), 1.1};
}

} // namespace dtc::plan
