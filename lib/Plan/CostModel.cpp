#include "dtc/Plan/CostModel.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::AxisList;
using sharding::Mesh;
using sharding::StepKind;

/// Where a device's achieved rate isn't known: large products reach about this
/// share of the peak.
static constexpr double kUsualEfficiency = 0.7;

CostModel::CostModel(const Cluster &cluster, int64_t ranks) : cluster(cluster), ranks(ranks) {
  if (!cluster.sharedMemory || cluster.cores < 1)
    return;
  // A rank has whole cores, or several ranks share one.
  share = ranks <= cluster.cores ? 1.0 / double(cluster.cores / ranks)
                                 : double(ranks) / double(cluster.cores);
}

double CostModel::peakFlops(DType type) const {
  auto it = cluster.device.peak.find(type);
  if (it != cluster.device.peak.end())
    return it->second;
  auto single = cluster.device.peak.find(DType::F32);
  return single != cluster.device.peak.end() ? single->second
                                             : cluster.device.peak.begin()->second;
}

int64_t CostModel::threadsPerRank() const {
  return cluster.sharedMemory ? std::max<int64_t>(1, cluster.cores / ranks) : 1;
}

double CostModel::memoryPerRank() const {
  return cluster.sharedMemory ? cluster.device.memoryBytes / double(ranks)
                              : cluster.device.memoryBytes;
}

/// How far two positive sizes are apart, in doublings.
static double octaves(int64_t a, int64_t b) {
  return std::abs(std::log2(double(std::max<int64_t>(a, 1)) / double(std::max<int64_t>(b, 1))));
}

/// Rate of the measured shapes around this one, weighted by nearness; 0 where
/// none was measured. Efficiency is decided by the smallest sizes: what lies
/// above 1024 counts the same.
double CostModel::measuredRate(const LocalWork &work) const {
  constexpr int64_t saturated = 1024;
  double weights = 0, sum = 0;
  for (const MeasuredContraction &row : cluster.contractions) {
    if (row.type != work.type)
      continue;
    auto apart = [&](int64_t a, int64_t b) {
      return octaves(std::min(a, saturated), std::min(b, saturated));
    };
    double distance = apart(row.m, work.m) + apart(row.n, work.n) + apart(row.k, work.k) +
                      0.25 * apart(row.batch, work.batch);
    double weight = 1 / (1e-3 + distance * distance * distance);
    double flops = 2.0 * double(row.batch) * double(row.m) * double(row.n) * double(row.k);
    weights += weight;
    sum += weight * flops / row.seconds;
  }
  return weights > 0 ? sum / weights : 0;
}

double CostModel::rate(const LocalWork &work) const {
  if (work.m > 0)
    if (double measured = measuredRate(work); measured > 0)
      return measured;
  auto it = cluster.device.achieved.find(work.type);
  return it != cluster.device.achieved.end() ? it->second
                                             : kUsualEfficiency * peakFlops(work.type);
}

double CostModel::opSeconds(const LocalWork &work) const {
  double compute = work.flops > 0 ? work.flops / rate(work) : 0;
  double memory = work.bytes / cluster.device.bandwidth;
  return share * std::max(compute, memory) + (work.kernel ? cluster.device.launchSeconds : 0);
}

double CostModel::streamSeconds(double bytes) const {
  return share * bytes / cluster.device.bandwidth;
}

/// The lowest level that joins all ranks of a group: ranks that differ only in
/// `axes` lie within a block as large as the outermost axis' stride times its
/// size.
const LinkLevel *CostModel::level(const AxisList &axes, const Mesh &mesh) const {
  int64_t span = 1;
  for (sharding::AxisId axis : axes) {
    int64_t block = 1;
    for (size_t inner = axis; inner < mesh.axes.size(); ++inner)
      block *= mesh.axes[inner].size;
    span = std::max(span, block);
  }
  for (const LinkLevel &level : cluster.levels)
    if (level.size == 0 || span <= level.size)
      return &level;
  return cluster.levels.empty() ? nullptr : &cluster.levels.back();
}

/// Between measured sizes time is interpolated on logarithmic axes, beyond them
/// scaled by the nearest; among group sizes the nearest measured one counts.
/// 0 where nothing was measured.
double CostModel::measuredCollective(StepKind kind, int64_t groupSize, double bytes) const {
  std::vector<MeasuredCollective> rows;
  for (const MeasuredCollective &row : cluster.collectives)
    if (row.kind == kind)
      rows.push_back(row);
  if (rows.empty())
    return 0;
  int64_t best = rows.front().ranks;
  for (const MeasuredCollective &row : rows)
    if (octaves(row.ranks, groupSize) < octaves(best, groupSize))
      best = row.ranks;
  std::erase_if(rows, [&](const MeasuredCollective &row) { return row.ranks != best; });
  std::sort(rows.begin(), rows.end(), [](auto &a, auto &b) { return a.bytes < b.bytes; });
  if (bytes <= double(rows.front().bytes))
    return rows.front().seconds;
  if (bytes >= double(rows.back().bytes))
    return rows.back().seconds * bytes / double(rows.back().bytes);
  auto above = std::find_if(rows.begin(), rows.end(),
                            [&](auto &row) { return double(row.bytes) >= bytes; });
  auto below = above - 1;
  if (above->bytes == below->bytes)
    return above->seconds;
  double t = std::log(bytes / double(below->bytes)) /
             std::log(double(above->bytes) / double(below->bytes));
  return std::exp((1 - t) * std::log(below->seconds) + t * std::log(above->seconds));
}

double CostModel::collectiveSeconds(StepKind kind, const AxisList &axes, double bytes,
                                    const Mesh &mesh) const {
  int64_t n = mesh.size(axes);
  if (n <= 1)
    return 0;
  if (kind == StepKind::Slice)
    return streamSeconds(2 * bytes / double(n));
  if (double measured = measuredCollective(kind, n, bytes); measured > 0)
    return measured;
  const LinkLevel *link = level(axes, mesh);
  if (!link)
    return 0;
  double others = double(n - 1), part = others / double(n);
  switch (kind) {
  case StepKind::AllReduce:
    return 2 * part * bytes / link->bandwidth + 2 * std::log2(double(n)) * link->latency;
  case StepKind::ReduceScatter:
  case StepKind::AllGather:
    return part * bytes / link->bandwidth + std::log2(double(n)) * link->latency;
  case StepKind::AllToAll:
    return part * bytes / link->bandwidth + others * link->latency;
  case StepKind::Permute:
    return bytes / link->bandwidth + link->latency;
  case StepKind::Slice:
    break;
  }
  return 0;
}

} // namespace dtc::plan
