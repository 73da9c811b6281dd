#include "StagePrices.h"

#include <algorithm>

namespace dtc::plan {

/// Share of the memory that recomputation leaves free where it can: predictions are off by a few
/// percent, and recomputing a block more costs less than running out of memory.
static constexpr double kSpare = 0.03;

static double alone(const simulate::Work &work) {
  return std::max(work.compute, work.overlapped) + work.blocking;
}

StagePrices::StagePrices(StageCosts &costs, const Degrees &degrees, const Profile &profile,
                         const std::vector<Block> &blocks, const Profile *recomputed)
    : costs(costs), degrees(degrees), units(profile.units()), folded(profile.folded()) {
  if (!recomputed)
    return;
  costs.setRecomputed(*recomputed);
  for (const Block &block : blocks)
    ends.push_back(profile.unitOf(block.last) + 1);
}

const StagePrices::Stage &StagePrices::stageOf(int a, int b) {
  auto [at, isNew] = stages.try_emplace(int64_t{a} * (units + 1) + b);
  Stage &entry = at->second;
  if (!isNew)
    return entry;
  simulate::StageCost stage = costs.stage(a, b);
  simulate::RankCost rank = costs.rank({{a, b}}, 0);
  entry.seconds =
      double(degrees.numMicrobatches) * (alone(stage.forward) + alone(stage.weightGrad)) +
      stage.reductionSeconds * (1 - stage.reductionOverlap) + rank.update.compute +
      rank.update.blocking;
  entry.inputGrad = stage.inputGrad;
  double transient = std::max({stage.forwardTransient, stage.backwardTransient,
                               stage.weightGradTransient});
  entry.updateBytes = rank.staticBytes + rank.updateTransient;
  entry.bytes = rank.staticBytes + transient -
                double(costs.peakBytes(a, b, a) - costs.savedBytes(a, b, a));
  return entry;
}

double StagePrices::seconds(const Stage &stage, int a, int b, int kept) const {
  return stage.seconds + double(degrees.numMicrobatches) *
                             alone(costs.recomputation(a, b, kept) + stage.inputGrad);
}

double StagePrices::bytes(const Stage &stage, int a, int b, int kept, int32_t slots) const {
  auto saved = double(costs.savedBytes(a, b, kept));
  return std::max(stage.updateBytes,
                  stage.bytes + double(costs.peakBytes(a, b, kept)) + double(slots - 1) * saved);
}

std::optional<StagePrices::Price> StagePrices::operator()(int a, int b, int32_t slots,
                                                          double budget) {
  int shift = folded.shift(a, b);
  std::optional<Price> price = find(a - shift, b - shift, slots, budget);
  if (price)
    price->kept += shift;
  return price;
}

std::optional<StagePrices::Price> StagePrices::find(int a, int b, int32_t slots, double budget) {
  const Stage &stage = stageOf(a, b);
  if (bytes(stage, a, b, a, slots) <= budget)
    return Price{seconds(stage, a, b, a), a};
  // The first end of a block up to which recomputing is enough.
  auto first = std::upper_bound(ends.begin(), ends.end(), a);
  auto last = std::upper_bound(first, ends.end(), b);
  for (double room : {budget * (1 - kSpare), budget}) {
    auto end = std::partition_point(
        first, last, [&](int kept) { return bytes(stage, a, b, kept, slots) > room; });
    if (end != last)
      return Price{seconds(stage, a, b, *end), *end};
  }
  return std::nullopt;
}

} // namespace dtc::plan
