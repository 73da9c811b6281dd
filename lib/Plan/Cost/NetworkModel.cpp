#include "dtc/Plan/Cost/NetworkModel.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::AxisList;
using sharding::Mesh;
using sharding::StepKind;

/// The share of nominal bandwidth that long messages reach where the cluster doesn't say it. They
/// reach 370 of 450 GB/s through NVSwitch, and 24 of 25 through a network card (NVIDIA GTC 2024
/// S62129).
static constexpr double kReachedInside = 0.8, kReachedOutside = 0.95;

namespace {

/// One of NCCL's protocols: seconds before the first byte, and the share of the bandwidth that
/// carries data. Between them, latency of a hop relative to that of a level (inside a node, between
/// nodes). From the tuning constants of NCCL 2.2x, whose hops are 3.4 us (NVLink) and 14 us
/// (network) with Simple.
struct Protocol {
  double base, hopInside, hopOutside, share;
  bool lowLatency; ///< bounded by the rate of flag-checked stores
};

} // namespace

static constexpr Protocol kRing[] = {{6.6e-6, 0.18, 0.19, 0.5, true},
                                     {14e-6, 0.56, 0.29, 0.92, false},
                                     {8.4e-6, 1, 1, 1, false}};
static constexpr Protocol kTree[] = {{6.8e-6, 0.18, 0.36, 1 / 3.8, true},
                                     {14e-6, 0.37, 0.61, 7.0 / 9, false},
                                     {8.4e-6, 1.18, 1, 0.92, false}};
/// An in-switch reduction starts late, but takes no steps.
static constexpr double kSwitchSeconds = 28e-6, kSwitchHopSeconds = 20e-6;

/// Long messages approach the full bandwidth slowly, as pipelines of chunks
/// fill: what would take t seconds takes t * (1 + (kRampSeconds / t)^kRampPower).
static constexpr double kRampSeconds = 25e-6, kRampPower = 0.75;

static double ramped(double seconds) {
  return seconds * (1 + std::pow(kRampSeconds / seconds, kRampPower));
}

/// How much longer a hop of a ring through several nodes takes than NCCL's constants, which are of
/// an idle pair. Each of the n - 1 hops waits for the slowest link. Beside kernels, it also waits
/// for a turn on its multiprocessor. Fitted to what FSDP loses of its throughput between 128 and
/// 2,048 H100 (docs/CostModel.md).
static constexpr double kLoadedHop = 1.75;

NetworkModel::NetworkModel(std::vector<LinkLevel> list, const DeviceSpec &device,
                           int64_t devices)
    : levels(std::move(list)), architecture(device.architecture), devices(devices) {
  for (size_t i = 0; i < levels.size(); ++i)
    if (levels[i].achieved <= 0)
      levels[i].achieved = i == 0 ? kReachedInside : kReachedOutside;
}

/// The devices from the first of a mesh to its last.
static int64_t spanOf(const Mesh &mesh) {
  int64_t span = 1;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (int64_t ranks = mesh.axes[axis].size; ranks > 1)
      span = std::max(span, mesh.stride(static_cast<sharding::AxisId>(axis)) * ranks);
  return span;
}

int64_t ranksBelow(int64_t size, int64_t span, int64_t ranks, int64_t stride) {
  if (size == 0 || size >= span)
    return ranks;
  int64_t fit = std::min(ranks, size / stride);
  if (fit == ranks && size % (stride * ranks) != 0)
    fit = ranks / 2;
  return std::max<int64_t>(1, fit);
}

std::vector<int64_t> ranksBelow(const Cluster &cluster, const Degrees &degrees,
                                const std::vector<Axis> &axes) {
  const Strides strides = stridesOf(degrees);
  std::vector<int64_t> result;
  for (Axis axis : axes)
    if (int64_t ranks = degreeOf(degrees, axis); ranks > 1)
      for (size_t i = 0; i + 1 < cluster.levels.size(); ++i)
        result.push_back(ranksBelow(cluster.levels[i].size, degrees.devices(), ranks,
                                    strides[static_cast<size_t>(axis)]));
  return result;
}

/// Ranks that differ only in `axes`: along each axis, as many are below one switch as fit.
/// Meshes may be of one stage, or of one data-parallel rank: what lies beside them tells as
/// well where groups are torn apart.
GroupShape NetworkModel::shape(const AxisList &axes, const Mesh &mesh) const {
  GroupShape group;
  group.ranks = mesh.size(axes);
  int64_t span = std::max(devices, spanOf(mesh));
  bool joined = false;
  for (size_t i = 0; i < kMaxLevels; ++i) {
    int64_t size = i + 1 < levels.size() ? levels[i].size : 0;
    group.inside[i] = 1;
    for (sharding::AxisId axis : axes)
      group.inside[i] *= ranksBelow(size, span, mesh.axes[axis].size, mesh.stride(axis));
    if (!joined && group.inside[i] == group.ranks) {
      group.level = static_cast<int>(i);
      joined = true;
    }
  }
  return group;
}

double NetworkModel::reached(size_t level) const {
  return levels[level].bandwidth * levels[level].achieved;
}

/// Bytes/s past every rank of a ring.
double NetworkModel::ringBandwidth(const GroupShape &group) const {
  double bandwidth = group.inside[0] > 1 ? reached(0) : HUGE_VAL;
  if (auto it = levels[0].rings.find(group.inside[0]); it != levels[0].rings.end())
    bandwidth = it->second;
  for (int i = 1; i <= group.level; ++i)
    bandwidth = std::min(bandwidth, double(group.inside[i - 1]) * reached(i));
  return bandwidth;
}

/// Of the protocol LL, whose every store carries a flag: NCCL's llMaxBws.
double NetworkModel::lowLatencyBandwidth(const GroupShape &group) const {
  int64_t nodes = group.ranks / group.inside[0];
  if (nodes > 1)
    return nodes == 2 ? 39e9 : 20.4e9;
  switch (architecture) {
  case Architecture::Blackwell:
    return 282e9;
  case Architecture::Hopper:
    return 141e9;
  case Architecture::Ampere:
    return 87.7e9;
  default:
    return 39e9;
  }
}

double NetworkModel::ring(StepKind kind, const GroupShape &group, double bytes) const {
  double rounds = kind == StepKind::AllReduce ? 2 : 1;
  double n = double(group.ranks), bandwidth = ringBandwidth(group);
  double lowLatency = lowLatencyBandwidth(group), best = HUGE_VAL;
  double traffic = rounds * (n - 1) / n * bytes, loaded = group.level > 0 ? kLoadedHop : 1;
  for (const Protocol &protocol : kRing) {
    double seconds = protocol.base;
    // Of the n - 1 steps each crosses one link; as many leave a switch as the
    // group has parts below switches of its level.
    double parts = n;
    for (int i = 0; i <= group.level; ++i) {
      double joined = n / double(group.inside[i]);
      seconds += rounds * (parts - joined) * levels[i].latency * loaded *
                 (i == 0 ? protocol.hopInside : protocol.hopOutside);
      parts = joined;
    }
    double rate = protocol.share * bandwidth;
    if (protocol.lowLatency)
      rate = std::min(rate, lowLatency);
    seconds += protocol.lowLatency ? traffic / rate : ramped(traffic / rate);
    best = std::min(best, seconds);
  }
  return best;
}

/// Double binary tree between nodes, a chain inside: every rank sends the
/// buffer twice, up and down.
double NetworkModel::tree(const GroupShape &group, double bytes) const {
  double n = double(group.ranks), inside = double(group.inside[0]), nodes = n / inside;
  double bandwidth = ringBandwidth(group);
  double lowLatency = lowLatencyBandwidth(group), best = HUGE_VAL;
  for (const Protocol &protocol : kTree) {
    double seconds = protocol.base + 2 * (inside - 1) * levels[0].latency * protocol.hopInside +
                     2 * std::log2(nodes) * levels[group.level].latency * protocol.hopOutside;
    double rate = protocol.share * bandwidth;
    if (protocol.lowLatency)
      rate = std::min(rate, lowLatency);
    seconds += protocol.lowLatency ? 2 * bytes / rate : ramped(2 * bytes / rate);
    best = std::min(best, seconds);
  }
  return best;
}

/// The switch adds up what all n ranks of a node hold and returns it to all. Each rank sends its
/// buffer and the n-th part that it distributes. Between nodes the n-th parts go up and down a
/// tree, or through switches that reduce.
double NetworkModel::inSwitch(const GroupShape &group, double bytes) const {
  double inside = double(group.inside[0]);
  if (levels[0].inSwitch <= 0 || inside < 3)
    return HUGE_VAL;
  double bandwidth =
      levels[0].bandwidth * levels[0].inSwitch * inside / (inside + 1);
  double seconds = kSwitchSeconds;
  for (int i = 1; i <= group.level; ++i) {
    const LinkLevel &level = levels[i];
    double share = level.inSwitch > 0 ? level.inSwitch : level.achieved / 2;
    bandwidth = std::min(bandwidth, double(group.inside[i - 1]) * level.bandwidth * share);
    double parts = double(group.inside[i]) / double(group.inside[i - 1]);
    seconds += (level.inSwitch > 0 ? 1 : std::log2(std::max(parts, 1.0))) * kSwitchHopSeconds;
  }
  return seconds + ramped(bytes / bandwidth);
}

/// Every rank sends to every other; what leaves a switch leaves through its
/// device's part of the next level.
double NetworkModel::allToAll(const GroupShape &group, double bytes) const {
  constexpr double atOnce = 8; // transfers
  double n = double(group.ranks), below = 1, busy = 0;
  for (int i = 0; i <= group.level; ++i) {
    double inside = double(group.inside[i]);
    // What goes through this level's links: to all ranks that are not below.
    double leaving = i == 0 ? inside - 1 : n - below;
    double rate = reached(i);
    if (auto it = levels[i].rings.find(group.inside[i]); it != levels[i].rings.end())
      rate = it->second;
    busy = std::max(busy, leaving / n * bytes / rate);
    below = inside;
  }
  double rounds = std::ceil((n - 1) / atOnce);
  return kRing[2].base + rounds * levels[group.level].latency + ramped(busy);
}

PointToPoint NetworkModel::link(int level, int64_t senders) const {
  if (levels.empty())
    return {0, HUGE_VAL};
  const LinkLevel &link = levels[level];
  if (architecture == Architecture::None)
    return {link.latency, link.bandwidth};
  double rate = link.bandwidth;
  // Fewer senders than devices: each has a card for itself, or more of one.
  if (level > 0 && senders > 0 && link.alone > rate)
    rate = std::clamp(rate * double(levels[0].size) / double(senders), rate, link.alone);
  rate *= link.achieved;
  if (auto it = link.rings.find(2); it != link.rings.end())
    rate = it->second;
  return {kRing[2].base + link.latency, rate};
}

/// One line per level and kind: alpha + beta * bytes.
double NetworkModel::linear(StepKind kind, const GroupShape &group, double bytes) const {
  const LinkLevel &link = levels[group.level];
  double others = double(group.ranks - 1), part = others / double(group.ranks);
  double hops = std::log2(double(group.ranks));
  if (kind == StepKind::AllReduce)
    return 2 * part * bytes / link.bandwidth + 2 * hops * link.latency;
  return part * bytes / link.bandwidth +
         (kind == StepKind::AllToAll ? others : hops) * link.latency;
}

double NetworkModel::seconds(StepKind kind, const GroupShape &group, double bytes) const {
  if (levels.empty() || group.ranks <= 1 || bytes <= 0)
    return 0;
  if (kind == StepKind::Permute)
    return link(group.level, 0).latency + bytes / link(group.level, 0).bandwidth;
  if (architecture == Architecture::None)
    return linear(kind, group, bytes);
  if (kind == StepKind::AllToAll)
    return allToAll(group, bytes);
  double best = ring(kind, group, bytes);
  if (kind == StepKind::AllReduce)
    best = std::min({best, tree(group, bytes), inSwitch(group, bytes)});
  return best;
}

} // namespace dtc::plan
