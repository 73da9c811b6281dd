#include "KernelModel.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Cost/StreamShare.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

/// Where a device's achieved rate isn't known: the mean of those of the catalog,
/// 0.73 to 0.87 of the peak.
static constexpr double kUsualEfficiency = 0.8;

/// Whether a cluster leaves out the rate of fp16, which is that of bf16 wherever there is one.
static bool hasRateOfBf16(const DeviceSpec &device, DType type) {
  return type == DType::F16 && !device.peak.contains(DType::F16) &&
         device.peak.contains(DType::BF16);
}

double peakFlops(const DeviceSpec &device, DType type) {
  if (hasRateOfBf16(device, type))
    type = DType::BF16;
  if (auto it = device.peak.find(type); it != device.peak.end())
    return it->second;
  auto single = device.peak.find(DType::F32);
  return single != device.peak.end() ? single->second : device.peak.begin()->second;
}

double achievedFlops(const DeviceSpec &device, DType type) {
  auto it = device.achieved.find(type);
  if (it == device.achieved.end() && hasRateOfBf16(device, type))
    it = device.achieved.find(DType::BF16);
  return it != device.achieved.end() ? it->second : kUsualEfficiency * peakFlops(device, type);
}

namespace {

/// A tile of the result, and the share of a multiprocessor's rate that its
/// k-loop keeps up: small tiles load more bytes for each product.
struct Tile {
  double rows, columns, share;
};

} // namespace

/// Fitted on the square products of an A100 (docs/CostModel.md).
static constexpr Tile kTiles[] = {{128, 256, 1},   {256, 128, 1},   {128, 128, 0.92},
                                  {64, 256, 0.85}, {256, 64, 0.85}, {64, 128, 0.75},
                                  {128, 64, 0.75}, {64, 64, 0.7}};
/// Of a kernel, before its first and after its last tile. Of each wave, what the next one doesn't
/// hide. Of a split k, for adding up the parts.
static constexpr double kProductSeconds = 4.5e-6, kWaveSeconds = 0.3e-6, kSplitSeconds = 2e-6;
/// Of a kernel that moves bytes, until its stream is up and after it ebbs.
static constexpr double kKernelSeconds = 2e-6;
/// Tensors whose update, or whose norm, dtc makes one kernel (KernelLimits::pieces).
static constexpr double kTensorsOfUpdate = 48;
/// The host's time for a kernel of a program that isn't compiled: Python, autograd,
/// shapes and allocation, beside the launch itself. Fitted (docs/CostModel.md).
static constexpr double kDispatchSeconds = 56e-6;
/// The size of a product at which a device's achieved rate is taken to be measured.
static constexpr double kLargeProduct = 8192;

double sustainedShare(Architecture architecture) {
  return architecture == Architecture::Hopper || architecture == Architecture::Blackwell ? 0.80
                                                                                         : 0.87;
}

KernelModel::KernelModel(const DeviceSpec &device, const Software &software)
    : device(device), software(software) {
  double flops = 2 * std::pow(kLargeProduct, 3);
  for (size_t i = 0; i < rates.size(); ++i) {
    auto type = static_cast<DType>(i);
    // Tiles are faster than the whole, which has an unfinished last wave.
    double achieved = sustainedShare(device.architecture) * achievedFlops(device, type);
    rates[i] = achieved;
    rates[i] = achieved * contraction(type, 1, kLargeProduct, kLargeProduct, kLargeProduct) /
               (flops / achieved);
  }
}

double KernelModel::rate(DType type) const { return rates[static_cast<size_t>(type)]; }

double KernelModel::streamSeconds(double bytes) const {
  return bytes <= 0 ? 0 : kKernelSeconds + bytes / (kStreamShare * device.bandwidth);
}

double KernelModel::launchSecondsOfTensor() const { return kKernelSeconds / kTensorsOfUpdate; }

double KernelModel::hostSeconds(int64_t kernels) const {
  return software.compiled ? 0 : double(kernels) * (device.launchSeconds + kDispatchSeconds);
}

double KernelModel::contraction(DType type, double batch, double m, double n, double k) const {
  double units = double(device.multiprocessors), perUnit = rate(type) / units;
  double stream = kStreamShare * device.bandwidth, best = HUGE_VAL;
  for (const Tile &tile : kTiles) {
    double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns) * batch;
    double perStep = 2 * tile.rows * tile.columns / (perUnit * tile.share);
    for (int parts = 1; parts <= 16; parts *= 2) {
      double waves = std::ceil(tiles * parts / units);
      double seconds = waves * (kWaveSeconds + perStep * std::ceil(k / parts));
      if (parts > 1) // partial results in single precision, written and added up
        seconds += kSplitSeconds + (parts + 1) * 4 * batch * m * n / stream;
      best = std::min(best, seconds);
      if (tiles * parts >= units)
        break; // all multiprocessors are busy
    }
  }
  return kProductSeconds + best;
}

namespace {

/// Of the peak rate, what fused attention reaches on long sequences of heads of
/// 128, forward and backward: FlashAttention (Dao et al. 2022), 2 (Dao 2023,
/// figures 4 to 6), 3 (Shah et al. 2024, figures 5 and 6); on Volta the
/// memory-efficient kernels of xFormers; version 3 of Blackwell is its newest.
struct FusedRate {
  Architecture architecture;
  int version;
  double forward, backward;
};

} // namespace

static constexpr FusedRate kFusedRates[] = {
    {Architecture::Volta, 1, 0.35, 0.25},  {Architecture::Ampere, 1, 0.40, 0.30},
    {Architecture::Ampere, 2, 0.70, 0.60}, {Architecture::Ada, 1, 0.40, 0.30},
    {Architecture::Ada, 2, 0.60, 0.50},    {Architecture::Hopper, 1, 0.20, 0.17},
    {Architecture::Hopper, 2, 0.36, 0.33}, {Architecture::Hopper, 3, 0.68, 0.55},
    {Architecture::Blackwell, 2, 0.20, 0.17}, {Architecture::Blackwell, 3, 0.62, 0.50},
};

/// Smaller heads reach less of the rate.
static double shareOfHeads(const LocalWork &work) {
  return std::pow(std::min(1.0, double(work.k) / 128), 0.35);
}

/// With whole blocks and a whole last wave.
static double attentionFlops(const LocalWork &work, int64_t multiprocessors) {
  double heads = double(work.batch), queries = double(work.m), keys = double(work.n);
  constexpr double block = 128;
  // The blocks on the diagonal are computed in full.
  double part = work.causal ? 0.5 + block / (2 * std::max(keys, block)) : 1;
  // A window begins in the middle of a block for most of a block's queries.
  if (work.window > 0)
    part = std::min(part, block * (1 + std::ceil(double(work.window - 1) / block)) /
                              std::max(keys, block));
  double flops = (work.backward ? 10 : 4) * heads * queries * keys * double(work.k) * part;
  double blocks = heads * std::ceil(queries / block), units = double(multiprocessors);
  double waves = std::ceil(blocks / units) * units / blocks;
  return flops * waves;
}

double attentionRate(const LocalWork &work, int64_t multiprocessors, double seconds) {
  double computing = std::max(seconds - kKernelSeconds, seconds / 2);
  return attentionFlops(work, multiprocessors) / (computing * shareOfHeads(work));
}

double KernelModel::fusedAttention(const LocalWork &work) const {
  const FusedRate *best = nullptr;
  for (const FusedRate &row : kFusedRates)
    if (row.architecture == device.architecture &&
        (!best || row.version <= software.flashAttention.value_or(kNewestAttention)))
      best = &row;
  double peak = peakFlops(device, work.type);
  double measured = work.backward ? device.attention.backward : device.attention.forward;
  double share = (work.backward ? best->backward : best->forward) * shareOfHeads(work);
  if (measured > 0 && byteSize(work.type) == 2)
    share = measured / peak * shareOfHeads(work);
  // Kernels that leave half of the products' units idle stay below the power limit.
  double sustained = share > 0.5 ? sustainedShare(device.architecture) : 1;
  double compute = attentionFlops(work, device.multiprocessors) / (sustained * share * peak);
  return kKernelSeconds + std::max(compute, work.bytes / (kStreamShare * device.bandwidth));
}

/// The scores and their gradient pass through memory: written by one product,
/// read and written by the softmax, read by the next. What is added to them is copied to
/// their place, and read again by the product that adds to it (`torch.baddbmm`). Of dtc's own
/// programs scores and their gradient are f32, and the backward pass reads scores instead of
/// probabilities, which it makes once more.
double KernelModel::unfusedAttention(const LocalWork &work) const {
  double batch = double(work.batch), s = double(work.m), t = double(work.n), d = double(work.k);
  double element = double(byteSize(work.type)), scores = batch * s * t * element;
  const bool isOwn = isOwnDecomposed(device, software, work);
  const double made = isOwn ? batch * s * t * 4 : scores; // by a product, for the softmax
  double products = contraction(work.type, batch, s, t, d) + contraction(work.type, batch, s, d, t);
  if (work.backward)
    products += contraction(work.type, batch, t, d, s) + contraction(work.type, batch, t, d, s);
  // Scale, mask, softmax in single precision and back, each a pass of its own.
  double passes = software.fusesSoftmax(work.batch) ? 1 : 4;
  double passed = made + (work.backward ? (isOwn ? made + 2 * scores : 2 * scores) : scores);
  double softmax = passes * streamSeconds(passed);
  if (software.dropout) // read, written, and a mask of a byte each
    softmax += streamSeconds((2 + 1 / element) * scores);
  if (work.biased && !isOwn) // dtc's own softmax adds it
    softmax += streamSeconds(2 * scores);
  double moved = (made + (work.backward ? 3 : 1) * scores) / (kStreamShare * device.bandwidth);
  return std::max(products, moved) + softmax;
}

double KernelModel::attention(const LocalWork &work) const {
  return isOneKernel(device, software, work) ? fusedAttention(work) : unfusedAttention(work);
}

double KernelModel::seconds(const LocalWork &work, double measuredRate) const {
  double moving = work.bytes / (kStreamShare * device.bandwidth);
  if (work.kernels == 0 && work.flops <= 0)
    return moving; // a part of another kernel
  auto count = double(std::max<int64_t>(work.kernels, 1));
  const double passing = double(work.passes) * kKernelSeconds,
               passed = work.passedBytes / (kStreamShare * device.bandwidth);
  if (work.attention && work.m > 0)
    return attention(work) + passing + passed;
  double computing = 0;
  if (work.m > 0 && measuredRate <= 0)
    computing = contraction(work.type, double(work.batch), double(work.m), double(work.n),
                            double(work.k));
  else
    computing = work.flops / (measuredRate > 0 ? measuredRate : rate(work.type));
  if (work.grouped)
    computing /= kGroupedShare;
  return std::max(computing, count * kKernelSeconds + moving) + passing + passed;
}

} // namespace dtc::plan
