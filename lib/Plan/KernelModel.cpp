#include "KernelModel.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

/// Where a device's achieved rate isn't known: large products reach about this
/// share of the peak.
static constexpr double kUsualEfficiency = 0.7;

double peakFlops(const DeviceSpec &device, DType type) {
  if (auto it = device.peak.find(type); it != device.peak.end())
    return it->second;
  auto single = device.peak.find(DType::F32);
  return single != device.peak.end() ? single->second : device.peak.begin()->second;
}

double achievedFlops(const DeviceSpec &device, DType type) {
  auto it = device.achieved.find(type);
  return it != device.achieved.end() ? it->second : kUsualEfficiency * peakFlops(device, type);
}

namespace {

/// A tile of the result, and the share of a multiprocessor's rate that its
/// k-loop keeps up: small tiles load more bytes for each product.
struct Tile {
  double rows, columns, share;
};

} // namespace

static constexpr Tile kTiles[] = {{128, 256, 1},   {256, 128, 1},   {128, 128, 0.95},
                                  {64, 256, 0.85}, {256, 64, 0.85}, {64, 128, 0.75},
                                  {128, 64, 0.75}, {64, 64, 0.6}};
/// Before the first product of a tile and after its last one; of a kernel, until
/// its first tile starts; of a split k, for adding up the parts.
static constexpr double kTileSeconds = 1.5e-6, kKernelSeconds = 2e-6, kSplitSeconds = 2e-6;
/// Of the memory's nominal bandwidth, what long streams reach.
static constexpr double kStreamShare = 0.9;

KernelModel::KernelModel(const DeviceSpec &device, const Software &software)
    : device(device), software(software) {
  for (size_t i = 0; i < rates.size(); ++i)
    rates[i] = achievedFlops(device, static_cast<DType>(i));
}

double KernelModel::rate(DType type) const { return rates[static_cast<size_t>(type)]; }

double KernelModel::streamSeconds(double bytes) const {
  return bytes <= 0 ? 0 : kKernelSeconds + bytes / (kStreamShare * device.bandwidth);
}

double KernelModel::launched(double seconds, double count) const {
  return software.compiled ? seconds : std::max(seconds, count * device.launchSeconds);
}

double KernelModel::contraction(DType type, double batch, double m, double n, double k) const {
  double units = double(device.multiprocessors), perUnit = rate(type) / units;
  double best = HUGE_VAL;
  for (const Tile &tile : kTiles) {
    double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns) * batch;
    double flops = 2 * tile.rows * tile.columns / (perUnit * tile.share);
    for (double parts = 1; parts <= 16; parts *= 2) {
      double waves = std::ceil(tiles * parts / units);
      double seconds = waves * (kTileSeconds + flops * std::ceil(k / parts)) +
                       (parts > 1 ? kSplitSeconds : 0);
      best = std::min(best, seconds);
      if (tiles * parts >= units || k / parts < 512)
        break;
    }
  }
  return kKernelSeconds + best;
}

double KernelModel::productSeconds(const LocalWork &work) const {
  return contraction(work.type, double(work.batch), double(work.m), double(work.n),
                     double(work.k));
}

namespace {

/// Of the peak rate, what fused attention reaches on long sequences of heads of
/// 128, forward and backward.
struct FusedRate {
  Architecture architecture;
  int version;
  double forward, backward;
};

} // namespace

static constexpr FusedRate kFusedRates[] = {
    {Architecture::Volta, 1, 0.35, 0.25},  {Architecture::Ampere, 1, 0.40, 0.35},
    {Architecture::Ampere, 2, 0.70, 0.58}, {Architecture::Ada, 1, 0.40, 0.35},
    {Architecture::Ada, 2, 0.60, 0.50},    {Architecture::Hopper, 1, 0.20, 0.17},
    {Architecture::Hopper, 2, 0.36, 0.33}, {Architecture::Hopper, 3, 0.68, 0.55},
    {Architecture::Blackwell, 2, 0.20, 0.17}, {Architecture::Blackwell, 3, 0.62, 0.50},
};

double KernelModel::fusedAttention(const LocalWork &work) const {
  const FusedRate *best = nullptr;
  for (const FusedRate &row : kFusedRates)
    if (row.architecture == device.architecture &&
        (!best || row.version <= software.flashAttention))
      best = &row;
  double heads = double(work.batch), queries = double(work.m), keys = double(work.n);
  constexpr double block = 128;
  // The blocks on the diagonal are computed in full.
  double part = work.causal ? 0.5 + block / (2 * std::max(keys, block)) : 1;
  double flops = (work.backward ? 10 : 4) * heads * queries * keys * double(work.k) * part;
  double size = std::min(1.0, double(work.k) / 128);
  double share = (work.backward ? best->backward : best->forward) * std::pow(size, 0.35);
  double blocks = heads * std::ceil(queries / block), units = double(device.multiprocessors);
  double waves = std::ceil(blocks / units) * units / blocks;
  double compute = flops * waves / (share * peakFlops(device, work.type));
  return kKernelSeconds + std::max(compute, work.bytes / (kStreamShare * device.bandwidth));
}

/// The scores and their gradient pass through memory: written by one product,
/// read and written by the softmax, read by the next.
double KernelModel::unfusedAttention(const LocalWork &work) const {
  double batch = double(work.batch), s = double(work.m), t = double(work.n), d = double(work.k);
  double element = double(byteSize(work.type)), scores = batch * s * t * element;
  double products = contraction(work.type, batch, s, t, d) + contraction(work.type, batch, s, d, t);
  if (work.backward)
    products += contraction(work.type, batch, t, d, s) + contraction(work.type, batch, t, d, s);
  // Scale, mask, softmax in single precision and back, each a pass of its own.
  double passes = software.fusedSoftmax ? 1 : 4;
  double softmax = passes * streamSeconds((work.backward ? 3 : 2) * scores);
  double moved = ((work.backward ? 4 : 2) * scores) / (kStreamShare * device.bandwidth);
  return std::max(products, moved) + softmax;
}

double KernelModel::attention(const LocalWork &work) const {
  return software.flashAttention > 0 ? fusedAttention(work) : unfusedAttention(work);
}

double KernelModel::seconds(const LocalWork &work) const {
  if (work.kernels == 0 && work.flops <= 0)
    return work.bytes / (kStreamShare * device.bandwidth);
  double count = double(std::max<int64_t>(work.kernels, 1));
  double moving = work.bytes / (kStreamShare * device.bandwidth);
  if (work.attention && work.m > 0)
    return launched(attention(work), count);
  double computing = work.m > 0 ? productSeconds(work)
                                : work.flops / rate(work.type) + count * kKernelSeconds;
  return launched(std::max(computing, moving + count * kKernelSeconds), count);
}

} // namespace dtc::plan
