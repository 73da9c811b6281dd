#include "dtc/Plan/Search/StagePrices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc::plan {

static double secondsOf(const simulate::Work &work) {
  return std::max(work.compute, work.overlapped) + work.blocking;
}

StagePrices::StagePrices(StageCosts &costs, const Degrees &degrees, const UnitCosts &unitCosts,
                         const std::vector<Block> &blocks, const UnitCosts *recomputed)
    : costs(costs), unitCosts(unitCosts), degrees(degrees), units(unitCosts.units()), shifts(units),
      recomputes(recomputed != nullptr), plain(units) {
  const FoldedUnits &folded = unitCosts.folded();
  repeatedEnd = folded.first + folded.copies * folded.count;
  for (int unit = folded.first; unit < repeatedEnd; ++unit)
    shifts[unit] = folded.shift(unit, unit);
  if (recomputed)
    costs.setRecomputed(*recomputed);
  for (const Block &block : blocks) {
    begins.push_back(unitCosts.unitOf(block.first));
    ends.push_back(unitCosts.unitOf(block.last) + 1);
  }
}

StagePrices::Stage &StagePrices::stageOf(const StageRun &run) {
  int64_t key = int64_t{run.begin} * (units + 1) + run.end;
  if (Stage *known = stages.find(key))
    return *known;
  Stage &entry = stages.add(key);
  price(entry, run);
  return entry;
}

void StagePrices::price(Stage &entry, const StageRun &run) const {
  simulate::StageCost stage = costs.stageSeconds(run);
  simulate::RankCost rank = costs.rank({run});
  entry.seconds =
      double(degrees.numMicrobatches) * (secondsOf(stage.forward) + secondsOf(stage.weightGrad)) +
      stage.reductionSeconds * (1 - stage.reductionOverlap) + rank.update.compute +
      rank.update.blocking;
  entry.inputGrad = stage.inputGrad;
  entry.updateBytes = rank.staticBytes + rank.updateTransient;
  entry.bytes = rank.staticBytes + costs.transientBytes(run);
  entry.secondsWhole = seconds(entry, run);
}

double StagePrices::bytesWhole(Stage &stage, const StageRun &run, const InFlight &held) const {
  auto &[bytes, slot] = stage.whole[held.splits];
  if (bytes < 0) {
    const bool isPlaced = costs.placesCalls();
    bytes = stage.bytes + double(isPlaced ? costs.heldBytes(run, {1, held.splits})
                                          : costs.peakBytes(run));
    slot = double(isPlaced ? costs.slotBytes(run, held.splits) : costs.savedBytes(run));
  }
  return std::max(stage.updateBytes, bytes + double(held.microbatches - 1) * slot);
}

double StagePrices::seconds(const Stage &stage, const StageRun &run) const {
  return stage.seconds + double(degrees.numMicrobatches) *
                             secondsOf(costs.recomputation(run) + stage.inputGrad);
}

double StagePrices::bytes(const Stage &stage, const StageRun &run, const InFlight &held) const {
  return std::max(stage.updateBytes, stage.bytes + double(costs.heldBytes(run, held)));
}

std::optional<StagePrices::Price> StagePrices::operator()(int a, int b, const InFlight &held,
                                                          double budget) {
  int shift = this->shift(a, b);
  std::optional<Price> price = find(a - shift, b - shift, held, budget);
  if (price)
    for (int StageRun::*unit : {&StageRun::begin, &StageRun::end, &StageRun::kept})
      price->run.*unit += shift;
  return price;
}

/// Without what is recomputed, and what parameters and gradients add, which takes longer to find. A
/// little less, as the whole price is summed up in another order.
double StagePrices::leastSeconds(int a, int b) const {
  constexpr double rounding = 1e-9;
  const PassSeconds each = unitCosts.seconds(a, b);
  return (1 - rounding) * double(degrees.numMicrobatches) *
         (each.forward + each.inputGrad + each.weightGrad);
}

double StagePrices::seconds(int a, int b, const InFlight &held, double budget, double limit) {
  constexpr double none = std::numeric_limits<double>::infinity();
  int shift = this->shift(a, b);
  if (limit < none && !knownStage(a - shift, b - shift))
    if (double least = leastSeconds(a - shift, b - shift); least > limit)
      return least;
  Stage &stage = plainStage(a - shift, b - shift);
  if (bytesWhole(stage, {a - shift, b - shift}, held) <= budget)
    return stage.secondsWhole;
  return recomputes ? keptOf(a - shift, b - shift, held, budget).seconds : none;
}

std::optional<StagePrices::Price> StagePrices::find(int a, int b, const InFlight &held,
                                                    double budget) {
  Price price{0, {a, b}};
  Stage &stage = plainStage(a, b);
  if (bytesWhole(stage, {a, b}, held) <= budget) {
    price.seconds = stage.secondsWhole;
    return price;
  }
  const Kept &found = keptOf(a, b, held, budget);
  if (!std::isfinite(found.seconds))
    return std::nullopt;
  price.seconds = found.seconds;
  price.run.kept = found.kept;
  return price;
}

/// Of a stage that doesn't fit whole.
const StagePrices::Kept &StagePrices::keptOf(int a, int b, const InFlight &held, double budget) {
  std::vector<Kept> &list = plainStage(a, b).found;
  for (const Kept &known : list)
    if (known.held == held && known.budget == budget)
      return known;
  Kept entry{held, budget, std::numeric_limits<double>::infinity(), a};
  for (double room : {budget * (1 - kSpareMemory), budget})
    if (auto price = within({a, b}, held, room)) {
      entry.seconds = price->seconds;
      entry.kept = price->run.kept;
      break;
    }
  return list.emplace_back(entry);
}

/// With the fewest blocks recomputed that keep to the room.
std::optional<StagePrices::Price> StagePrices::within(StageRun run, const InFlight &held,
                                                      double room) {
  const Stage &stage = stageOf(run);
  if (bytes(stage, run, held) <= room)
    return Price{seconds(stage, run), run};
  if (!recomputes)
    return std::nullopt;
  // The first end of a block up to which recomputing is enough.
  const std::vector<int> all = blockEnds(run.begin, run.end);
  auto end = std::partition_point(all.begin(), all.end(), [&](int kept) {
    run.kept = kept;
    return bytes(stage, run, held) > room;
  });
  if (end == all.end())
    return std::nullopt;
  run.kept = *end;
  return Price{seconds(stage, run), run};
}

bool StagePrices::isWithinBlock(int cut) const {
  auto block = std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin();
  return block < std::ssize(begins) && begins[block] < cut;
}

std::vector<int> StagePrices::blockEnds(int begin, int end) const {
  auto first = std::upper_bound(ends.begin(), ends.end(), begin);
  std::vector<int> result(first, std::upper_bound(first, ends.end(), end));
  if (isWithinBlock(end))
    result.push_back(end);
  return result;
}

} // namespace dtc::plan
