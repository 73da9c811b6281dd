// The most that the units of a stage have at a time.
#include "dtc/Plan/Predict/UnitCosts.h"

#include <algorithm>
#include <functional>
#include <set>

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

/// By step, whether its block has waited for no collective yet in the backward pass. Collectives
/// are done in order: from the first on that it waits for, the scatters of the block after it are.
static std::vector<bool> stepsBeside(const RankExecution &execution,
                                     const std::function<int(size_t)> &blockOf) {
  std::vector<bool> result;
  std::set<int> done;
  for (size_t i = 0; i < execution.steps.size(); ++i) {
    const ExecutionStep &step = execution.steps[i];
    int block = blockOf(i);
    result.push_back(!done.count(block));
    if (step.backward() && step.collective && *step.collective != sharding::StepKind::Slice)
      done.insert(block);
  }
  return result;
}

/// Of what the block after each unit's own has, what counts beside the unit's most: in its steps
/// beside that block's scatters it may have less itself.
static std::vector<int64_t> countedBeside(std::vector<int64_t> after,
                                          const std::vector<int64_t> &most,
                                          const std::vector<int64_t> &besideIt) {
  for (size_t unit = 0; unit < after.size(); ++unit)
    after[unit] = std::max<int64_t>(0, after[unit] - (most[unit] - besideIt[unit]));
  return after;
}

namespace {

/// The most of a call in each unit; -1 where it does nothing.
class CallPeaks {
public:
  CallPeaks(size_t units, const std::function<int(size_t)> &unitOf, const Temporaries &all)
      : unitOf(unitOf), all(all), most(units, -1) {}

  /// `less`: at each step. `which`: of these steps alone.
  std::vector<int64_t> find(const StoredLiveness &stored, int storing,
                            const std::vector<int64_t> *less,
                            const std::vector<bool> *which = nullptr) {
    std::fill(most.begin(), most.end(), which ? 0 : -1);
    for (size_t i = 0; i < all.live.size(); ++i) {
      if (all.live[i] < 0 || (which && !(*which)[i]))
        continue;
      // What is scattered is made as a whole first.
      int64_t bytes = all.live[i] - (less ? (*less)[i] : 0) + storedAt(stored, i, storing) -
                      (storing > 0 ? 0 : all.atHome[i]);
      int64_t &at = most[unitOf(i)];
      at = std::max(at, bytes);
    }
    return most;
  }

  /// With the last step of each; 0 where it does nothing.
  std::vector<int64_t> atEnd(const StoredLiveness &stored, int storing) const {
    std::vector<int64_t> result(most.size(), 0);
    for (size_t i = 0; storing > 0 && i < all.live.size(); ++i)
      if (all.live[i] >= 0)
        result[unitOf(i)] = all.live[i] - all.outside[i] + storedAt(stored, i, storing);
    return result;
  }

private:
  const std::function<int(size_t)> &unitOf;
  const Temporaries &all;
  std::vector<int64_t> most;
};

} // namespace

void UnitCosts::addTemporaries(const Problem &problem, const RankExecution &execution,
                               const StoredLiveness &stored) {
  const std::vector<int64_t> nothing(units(), 0);
  std::vector<int> unitOfStep, unitOfOp(problem.ops.size(), -1);
  for (const ExecutionStep &step : execution.steps) {
    unitOfStep.push_back(executedUnitOf(step.position));
    if (step.position >= 0)
      unitOfOp[step.position] = unitOfStep.back();
  }
  const std::function<int(size_t)> unitOf = [&](size_t step) { return unitOfStep[step]; };
  const std::vector<bool> besideScatters =
      stepsBeside(execution, [&](size_t step) { return blockOfUnit[unitOf(step)]; });
  for (int call = 0; call < kStageCalls; ++call) {
    auto kind = static_cast<StageCall>(call);
    Temporaries all = temporariesOf(execution, problem, kind, [&](OpId position) {
      return position < 0 ? executedUnitOf(position) : unitOfOp[position];
    });
    CallPeaks peaks(executedUnits(), unitOf, all);
    for (int storing = 0; storing < kStorings; ++storing) {
      std::vector<int64_t> most = peaks.find(stored, storing, nullptr);
      endOf[storing][call] = ofWhole(peaks.atEnd(stored, storing));
      auto without = [&](const std::vector<int64_t> &messages) {
        std::vector<int64_t> less = peaks.find(stored, storing, &messages);
        for (size_t unit = 0; unit < less.size(); ++unit)
          less[unit] = most[unit] - less[unit];
        return ofWhole(less);
      };
      inMessages[storing][call] = {without(all.below), without(all.above), without(all.outside)};
      bool gathers = storing > 1 && kind != StageCall::WeightGrad;
      bool scatters = storing > 0 && kind != StageCall::Forward && kind != StageCall::InputGrad;
      bool forward = kind == StageCall::Forward;
      if (!gathers && !scatters) {
        mostOf[storing][call] = UnitPeaks(ofWhole(most));
        continue;
      }
      std::vector<int64_t> after = nothing;
      if (scatters)
        after = countedBeside(beside(stored.gradients, true), ofWhole(most),
                              ofWhole(peaks.find(stored, storing, nullptr, &besideScatters)));
      else if (forward)
        after = beside(stored.forward, true);
      mostOf[storing][call] =
          UnitPeaks(ofWhole(most), gathers && !forward ? beside(stored.backward, false) : nothing,
                    after, exchanging);
    }
  }
}

int64_t UnitCosts::temporaryBytes(StageCall call, int a, int b, int zero, int64_t waiting) const {
  if (a >= b)
    return 0;
  if (call == StageCall::Forward || call == StageCall::InputGrad)
    waiting = 0;
  const UnitPeaks &most = mostOf[storing(zero)][int(call)];
  const InMessages &less = inMessages[storing(zero)][int(call)];
  // The first unit's block scatters what it has when nothing else is left.
  int64_t end = endOf[storing(zero)][int(call)][a] + waiting;
  if (b - a == 1)
    return std::max({int64_t{0}, end, most(a, b, waiting) - less.outside[a]});
  int64_t result = std::max({end, most.of(a, b, a, a + 1, waiting) - less.below[a],
                             most.of(a, b, b - 1, b, waiting) - less.above[b - 1]});
  if (b - a > 2)
    result = std::max(result, most.of(a, b, a + 1, b - 1, waiting) - passing[int(call)](a, b));
  return std::max<int64_t>(0, result);
}

/// `forward` and `backward`: of the whole model, with nothing stored in parts.
void UnitCosts::addPeaks(const RankExecution &execution, const StoredLiveness &stored,
                         const std::vector<int64_t> &live, const std::vector<int64_t> &forward,
                         const std::vector<int64_t> &backward) {
  const std::vector<int64_t> nothing(units(), 0);
  const std::vector<bool> besideScatters = stepsBeside(execution, [&](size_t step) {
    return blockOfUnit[executedUnitOf(execution.steps[step].position)];
  });
  for (int storing = 0; storing < kStorings; ++storing) {
    std::vector<int64_t> plain[2], most[2], beforeWaits[2]; // by pass
    std::vector<int64_t> ends(executedUnits(), 0);
    for (auto *lists : {plain, most, beforeWaits})
      for (bool back : {false, true})
        lists[back].assign(executedUnits(), 0);
    for (size_t i = 0, end = execution.firstLeaving(); i < end; ++i) {
      bool back = execution.steps[i].backward();
      int unit = executedUnitOf(execution.steps[i].position);
      plain[back][unit] = std::max(plain[back][unit], live[i]);
      int64_t bytes = live[i] + storedAt(stored, i, storing);
      most[back][unit] = std::max(most[back][unit], bytes);
      if (back && storing > 0)
        ends[unit] = bytes;
      if (besideScatters[i])
        beforeWaits[back][unit] = std::max(beforeWaits[back][unit], bytes);
    }
    auto raised = [&](const std::vector<int64_t> &bytes, const std::vector<int64_t> &whole,
                      bool back) {
      std::vector<int64_t> before = ofWhole(plain[back]), result = ofWhole(bytes);
      for (size_t unit = 0; unit < result.size(); ++unit)
        result[unit] += whole[unit] - before[unit];
      return result;
    };
    endBackward[storing] = raised(ends, backward, true);
    bool gathers = storing > 1, scatters = storing > 0;
    mostForward[storing] = gathers ? UnitPeaks(raised(most[false], forward, false), nothing,
                                               beside(stored.forward, true), exchanging)
                                   : UnitPeaks(raised(most[false], forward, false));
    mostBackward[storing] =
        scatters ? UnitPeaks(raised(most[true], backward, true),
                             gathers ? beside(stored.backward, false) : nothing,
                             countedBeside(beside(stored.gradients, true), ofWhole(most[true]),
                                           ofWhole(beforeWaits[true])),
                             exchanging)
                 : UnitPeaks(raised(most[true], backward, true));
  }
}

} // namespace dtc::plan
