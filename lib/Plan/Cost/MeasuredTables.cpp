#include "MeasuredTables.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::StepKind;

/// Efficiency is decided by the smallest sizes: what lies above counts the same.
static constexpr int64_t kSaturated = 1024;

static double octave(int64_t size) { return std::log2(double(std::max<int64_t>(size, 1))); }
static double saturating(int64_t size) { return octave(std::min(size, kSaturated)); }

MeasuredTables::MeasuredTables(const Cluster &cluster) {
  for (const MeasuredContraction &row : cluster.contractions) {
    double flops = 2.0 * double(row.batch) * double(row.m) * double(row.n) * double(row.k);
    products.push_back({row.type, octave(row.batch), saturating(row.m), saturating(row.n),
                        saturating(row.k), flops / row.seconds});
  }
  for (const MeasuredCollective &row : cluster.collectives) {
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve &c) {
      return c.kind == row.kind && c.ranks == row.ranks;
    });
    if (curve == curves.end())
      curve = curves.insert(curves.end(), Curve{row.kind, row.ranks, {}});
    curve->points.emplace_back(double(row.bytes), row.seconds);
  }
  forks = {{1, 0}};
  for (const MeasuredFork &row : cluster.forks)
    forks.emplace_back(double(row.threads), row.seconds);
  std::stable_sort(forks.begin(), forks.end());
  for (Curve &curve : curves)
    std::stable_sort(curve.points.begin(), curve.points.end(),
                     [](const auto &a, const auto &b) { return a.first < b.first; });
}

double MeasuredTables::rate(DType type, int64_t batch, int64_t m, int64_t n, int64_t k) const {
  double b = octave(batch), lm = saturating(m), ln = saturating(n), lk = saturating(k);
  double weights = 0, sum = 0;
  for (const Product &row : products) {
    if (row.type != type)
      continue;
    double distance = std::abs(row.m - lm) + std::abs(row.n - ln) + std::abs(row.k - lk) +
                      0.25 * std::abs(row.batch - b);
    double weight = 1 / (1e-3 + distance * distance * distance);
    weights += weight;
    sum += weight * row.rate;
  }
  return weights > 0 ? sum / weights : 0;
}

double MeasuredTables::collectiveSeconds(StepKind kind, int64_t ranks, double bytes) const {
  const Curve *best = nullptr;
  for (const Curve &curve : curves)
    if (curve.kind == kind && (!best || std::abs(octave(curve.ranks) - octave(ranks)) <
                                            std::abs(octave(best->ranks) - octave(ranks))))
      best = &curve;
  if (!best)
    return 0;
  const auto &points = best->points;
  if (bytes <= points.front().first)
    return points.front().second;
  if (bytes >= points.back().first)
    return points.back().second * bytes / points.back().first;
  auto above = std::find_if(points.begin(), points.end(),
                            [&](const auto &point) { return point.first >= bytes; });
  auto below = above - 1;
  if (above->first == below->first)
    return above->second;
  double t = std::log(bytes / below->first) / std::log(above->first / below->first);
  return std::exp((1 - t) * std::log(below->second) + t * std::log(above->second));
}

double MeasuredTables::forkSeconds(int64_t threads) const {
  if (threads <= 1 || forks.size() < 2)
    return 0;
  auto above = std::find_if(forks.begin() + 1, forks.end() - 1,
                            [&](const auto &fork) { return fork.first >= double(threads); });
  auto below = above - 1;
  if (above->first == below->first)
    return above->second;
  double t = (double(threads) - below->first) / (above->first - below->first);
  return std::max(0.0, below->second + t * (above->second - below->second));
}

} // namespace dtc::plan
