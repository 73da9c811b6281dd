// The most that the units of a stage have at a time.
#include "dtc/Plan/Predict/UnitCosts.h"

#include <algorithm>

namespace dtc::plan {

static RangeMax sumOf(std::vector<int64_t> first, const std::vector<int64_t> &second) {
  for (size_t unit = 0; unit < first.size(); ++unit)
    first[unit] += second[unit];
  return RangeMax(std::move(first));
}

UnitPeaks::UnitPeaks(const std::vector<int64_t> &own, const std::vector<int64_t> &ofBefore,
                     const std::vector<int64_t> &ofAfter, std::shared_ptr<const UnitBlocks> blocks)
    : blocks(std::move(blocks)), own(own), withBefore(sumOf(own, ofBefore)),
      withAfter(sumOf(own, ofAfter)) {
  std::vector<int64_t> both = own;
  for (size_t unit = 0; unit < both.size(); ++unit)
    both[unit] += ofBefore[unit] + ofAfter[unit];
  withBoth = RangeMax(std::move(both));
}

/// What comes before all blocks is one, and what comes after them another (PlanBridge/Apply.cpp).
void UnitCosts::findBlocksOfUnits(const std::vector<Block> &blocks) {
  std::vector<std::pair<int, int>> wholes(units()); // the block, and its copy
  for (int unit = 0; unit < executedUnits(); ++unit) {
    OpId first = executed.cuts[unit];
    auto begun = std::count_if(blocks.begin(), blocks.end(),
                               [&](const Block &block) { return block.first <= first; });
    bool isBehind = !blocks.empty() && first > blocks.back().last;
    blockOfUnit.push_back(blocks.empty() ? unit : static_cast<int>(begun) + isBehind);
    const FoldedUnits &fold = executed.units;
    for (int copy = 0; copy < (fold.repeats(unit) ? fold.copies : 1); ++copy)
      wholes[fold.at(unit, copy)] = {blockOfUnit.back(), copy};
  }
  UnitBlocks result{std::vector<int>(units()), std::vector<int>(units())};
  for (int unit = 0; unit < units(); ++unit)
    result.begin[unit] =
        unit > 0 && wholes[unit] == wholes[unit - 1] ? result.begin[unit - 1] : unit;
  for (int unit = units() - 1; unit >= 0; --unit)
    result.end[unit] =
        unit + 1 < units() && wholes[unit] == wholes[unit + 1] ? result.end[unit + 1] : unit + 1;
  exchanging = std::make_shared<UnitBlocks>(std::move(result));
}

/// By unit of the whole model, from the executed units.
std::vector<int64_t> UnitCosts::ofWhole(const std::vector<int64_t> &byUnit) const {
  const FoldedUnits &fold = executed.units;
  std::vector<int64_t> result(units());
  for (int unit = 0; unit < executedUnits(); ++unit)
    for (int copy = 0; copy < (fold.repeats(unit) ? fold.copies : 1); ++copy)
      result[fold.at(unit, copy)] = byUnit[unit];
  return result;
}

/// Of each unit of the whole model, what the block before its own has, or that after it.
std::vector<int64_t> UnitCosts::beside(const std::vector<int64_t> &byBlock, bool after) const {
  std::vector<int64_t> result;
  for (int block : blockOfUnit) {
    size_t other = after ? block + 1 : block - 1; // before the first: out of range
    result.push_back(other < byBlock.size() ? byBlock[other] : 0);
  }
  return ofWhole(result);
}

/// What a step has of the parameters and gradients of its own unit.
static int64_t storedAt(const StoredLiveness &stored, size_t step, int storing) {
  return (storing > 0 ? stored.scattered[step] : 0) + (storing > 1 ? stored.gathered[step] : 0);
}

void UnitCosts::addTemporaries(const RankExecution &execution, const StoredLiveness &stored) {
  const std::vector<int64_t> nothing(units(), 0);
  for (int call = 0; call < kStageCalls; ++call) {
    auto kind = static_cast<StageCall>(call);
    std::vector<int64_t> live = plan::temporaryBytes(execution, kind);
    for (int storing = 0; storing < kStorings; ++storing) {
      std::vector<int64_t> most(executedUnits(), -1);
      for (size_t i = 0; i < live.size(); ++i) {
        int64_t &at = most[executedUnitOf(execution.steps[i].position)];
        if (live[i] >= 0)
          at = std::max(at, live[i] + storedAt(stored, i, storing));
      }
      bool gathers = storing > 1 && kind != StageCall::WeightGrad;
      bool scatters = storing > 0 && kind != StageCall::Forward && kind != StageCall::InputGrad;
      bool forward = kind == StageCall::Forward;
      if (!gathers && !scatters) {
        mostOf[storing][call] = UnitPeaks(ofWhole(most));
        continue;
      }
      mostOf[storing][call] =
          UnitPeaks(ofWhole(most), gathers && !forward ? beside(stored.backward, false) : nothing,
                    scatters             ? beside(stored.gradients, true)
                    : gathers && forward ? beside(stored.forward, true)
                                         : nothing,
                    exchanging);
    }
  }
}

/// `forward` and `backward`: of the whole model, with nothing stored in parts.
void UnitCosts::addPeaks(const RankExecution &execution, const StoredLiveness &stored,
                         const std::vector<int64_t> &live, const std::vector<int64_t> &forward,
                         const std::vector<int64_t> &backward) {
  const std::vector<int64_t> nothing(units(), 0);
  for (int storing = 0; storing < kStorings; ++storing) {
    std::vector<int64_t> plain[2], most[2]; // by pass
    for (auto *lists : {plain, most})
      for (bool back : {false, true})
        lists[back].assign(executedUnits(), 0);
    for (size_t i = 0, end = execution.firstLeaving(); i < end; ++i) {
      bool back = execution.steps[i].backward();
      int unit = executedUnitOf(execution.steps[i].position);
      plain[back][unit] = std::max(plain[back][unit], live[i]);
      most[back][unit] = std::max(most[back][unit], live[i] + storedAt(stored, i, storing));
    }
    auto raised = [&](const std::vector<int64_t> &whole, bool back) {
      std::vector<int64_t> before = ofWhole(plain[back]), result = ofWhole(most[back]);
      for (size_t unit = 0; unit < result.size(); ++unit)
        result[unit] += whole[unit] - before[unit];
      return result;
    };
    bool gathers = storing > 1, scatters = storing > 0;
    mostForward[storing] = gathers ? UnitPeaks(raised(forward, false), nothing,
                                               beside(stored.forward, true), exchanging)
                                   : UnitPeaks(raised(forward, false));
    mostBackward[storing] = scatters ? UnitPeaks(raised(backward, true),
                                                 gathers ? beside(stored.backward, false) : nothing,
                                                 beside(stored.gradients, true), exchanging)
                                     : UnitPeaks(raised(backward, true));
  }
}

} // namespace dtc::plan
