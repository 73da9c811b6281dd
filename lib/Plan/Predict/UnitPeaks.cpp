// The most that the units of a stage have at a time.
#include "dtc/Plan/Predict/UnitCosts.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

static RangeMax sumOf(std::vector<int64_t> first, const std::vector<int64_t> &second) {
  for (size_t unit = 0; unit < first.size(); ++unit)
    first[unit] += second[unit];
  return RangeMax(std::move(first));
}

UnitPeaks::UnitPeaks(const std::vector<int64_t> &own, const Beside &beside,
                     std::shared_ptr<const UnitNeighbours> given)
    : neighbours(std::move(given)), own(own), withBefore(sumOf(own, beside.ofBefore)),
      left(beside.left) {
  const size_t units = own.size();
  if (std::ranges::all_of(left, [](int64_t bytes) { return bytes == 0; }))
    left.clear(); // most have nothing, and need no peaks by share
  for (size_t i = 0; i < (left.empty() ? 1 : std::size(kLeft)); ++i) {
    std::vector<int64_t> after = own;
    for (size_t unit = 0; unit < units; ++unit) {
      size_t next = neighbours->after[unit];
      after[unit] += beside.ofAfter[unit];
      if (i > 0 && next < units)
        after[unit] += std::llround(kLeft[i] * double(left[next]));
    }
    withBoth[i] = sumOf(after, beside.ofBefore);
    withAfter[i] = RangeMax(std::move(after));
  }
}

UnitPeaks::UnitPeaks(std::vector<int64_t> each, const Beside &ofUnits) : left(ofUnits.left) {
  sumBefore = sumAfter = {0};
  for (size_t unit = 0; unit < each.size(); ++unit) {
    sumBefore.push_back(sumBefore.back() + ofUnits.ofBefore[unit]);
    sumAfter.push_back(sumAfter.back() + ofUnits.ofAfter[unit]);
    each[unit] += sumBefore[unit] - sumAfter[unit + 1];
  }
  own = RangeMax(std::move(each));
}

int64_t UnitPeaks::of(int a, int b, int from, int to, double share) const {
  if (!sumAfter.empty())
    return own(from, to) - sumBefore[a] + sumAfter[b];
  if (!neighbours)
    return own(from, to);
  const int first = std::min(neighbours->firstBefore[a], b);
  const int last = std::max(neighbours->endAfter[b - 1], a);
  const int begin = std::min(std::max(neighbours->firstAfter[a], a), last);
  if (first >= b && begin >= last)
    return own(from, to);
  int64_t most = 0;
  // Between two shares the most is convex: never too little.
  const bool waits = share > 0 && !left.empty();
  const int low = waits && share > kLeft[1] ? 1 : 0;
  const double way = waits ? (share - kLeft[low]) / (kLeft[low + 1] - kLeft[low]) : 0;
  auto add = [&](const RangeMax *peaks, int begin, int end) {
    begin = std::max(begin, from);
    end = std::min(end, to);
    if (begin >= end)
      return;
    int64_t bytes = peaks[low](begin, end);
    if (way > 0)
      bytes += std::llround(way * double(peaks[low + 1](begin, end) - bytes));
    most = std::max(most, bytes);
  };
  auto addWithoutAfter = [&](const RangeMax &peaks, int begin, int end) {
    begin = std::max(begin, from);
    end = std::min(end, to);
    if (begin < end)
      most = std::max(most, peaks(begin, end));
  };
  addWithoutAfter(own, a, begin);
  add(withAfter, begin, std::min(first, last));
  add(withBoth, std::max(first, begin), last);
  addWithoutAfter(own, last, first);
  addWithoutAfter(withBefore, std::max(first, last), b);
  return most;
}

int64_t UnitPeaks::atEnd(int a, int b, double share) const {
  if (left.empty())
    return 0;
  if (sumAfter.empty())
    return std::llround(share * double(left[a]));
  auto all = double(sumAfter[b] - sumAfter[a]);
  return sumAfter[b] - sumAfter[a + 1] + std::llround(share * all);
}

/// What comes before all blocks is one, and what comes after them another (PlanBridge/Apply.cpp). A
/// model without blocks is one, whose units are told apart as stages begin and end within it.
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
  if (blocks.empty())
    return;
  UnitBlocks result{std::vector<int>(units()), std::vector<int>(units())};
  for (int unit = 0; unit < units(); ++unit)
    result.begin[unit] =
        unit > 0 && wholes[unit] == wholes[unit - 1] ? result.begin[unit - 1] : unit;
  for (int unit = units() - 1; unit >= 0; --unit)
    result.end[unit] =
        unit + 1 < units() && wholes[unit] == wholes[unit + 1] ? result.end[unit + 1] : unit + 1;
  exchanging = std::make_shared<UnitBlocks>(std::move(result));
}

/// By unit of the whole model. `of`: an executed unit.
template <typename Of> std::vector<int64_t> UnitCosts::forWhole(Of of) const {
  const FoldedUnits &fold = executed.units;
  std::vector<int64_t> result(units());
  for (int unit = 0; unit < executedUnits(); ++unit)
    for (int copy = 0, copies = fold.repeats(unit) ? fold.copies : 1; copy < copies; ++copy)
      result[fold.at(unit, copy)] = of(unit);
  return result;
}

std::vector<int64_t> UnitCosts::ofWhole(const std::vector<int64_t> &byUnit) const {
  return forWhole([&](int unit) { return byUnit[unit]; });
}

/// Of each unit of the whole model, what the nearest block before its own has of those that have
/// anything, or that after it. One of `ends` (by block) comes between without anything.
std::vector<int64_t> UnitCosts::beside(const std::vector<int64_t> &byBlock, bool after,
                                       const std::vector<bool> &ends) const {
  return forWhole([&](int unit) -> int64_t {
    for (size_t other = blockOfUnit[unit];;) {
      after ? ++other : --other; // maybe out of range
      if (other >= byBlock.size())
        return 0;
      if (byBlock[other] > 0 || (!ends.empty() && ends[other]))
        return byBlock[other];
    }
  });
}

/// Of units that hold something of blocks with `before` and with `after`, by unit of the whole
/// model. `gathersAhead`: only from the first block of a stage on that has something itself.
std::shared_ptr<const UnitNeighbours> UnitCosts::neighboursOf(const std::vector<int64_t> &before,
                                                              const std::vector<int64_t> &after,
                                                              bool gathersAhead) const {
  const std::vector<int> &begin = exchanging->begin, &end = exchanging->end;
  const int count = units();
  UnitNeighbours result;
  for (std::vector<int> *list :
       {&result.firstBefore, &result.firstAfter, &result.endAfter, &result.after})
    list->resize(count, 0);
  for (int unit = 0; unit < count; ++unit)
    result.endAfter[unit] = after[unit] > 0 ? begin[unit]
                            : unit > 0      ? result.endAfter[unit - 1]
                                            : 0;
  for (int unit = count; unit-- > 0;) {
    const bool isLast = unit + 1 == count;
    const int next = end[unit];
    result.firstBefore[unit] = before[unit] > 0 ? next
                               : isLast         ? count
                                                : result.firstBefore[unit + 1];
    const bool starts = !gathersAhead || after[unit] > 0;
    result.firstAfter[unit] = starts ? unit : isLast ? count : result.firstAfter[unit + 1];
    result.after[unit] = next == count || after[next] > 0 ? next : result.after[next];
  }
  return std::make_shared<UnitNeighbours>(std::move(result));
}

/// What a step has of the parameters and gradients of its own unit.
static int64_t storedAt(const StoredLiveness &stored, size_t step, int storing) {
  return (storing > 0 ? stored.scattered[step] : 0) + (storing > 1 ? stored.gathered[step] : 0);
}

/// By step, whether its block has waited for no collective yet in the backward pass. Collectives
/// are done in order: from the first on that it waits for, the scatters of the block after it are.
void UnitCosts::findWaits(ExecutedSteps &steps) const {
  steps.waits.assign(blockOfUnit.back() + 1, false);
  for (size_t i = 0; i < steps.units.size(); ++i) {
    const ExecutionStep &step = steps.execution.steps[i];
    int block = blockOfUnit[steps.units[i]];
    steps.besideScatters.push_back(!steps.waits[block]);
    if (step.backward() && step.collective && *step.collective != sharding::StepKind::Slice)
      steps.waits[block] = true;
  }
}

/// By buffer.
std::vector<bool> UnitCosts::scatteredGradients(const RankExecution &execution) const {
  std::vector<bool> result(execution.buffers.size(), false);
  for (const auto &[parameter, buffer] : execution.gradientBuffers)
    result[buffer] = isScattered(levels, parameter);
  return result;
}

/// Of what the block after each unit's own has, what counts beside the unit's most. In its steps
/// beside that block's scatters it may have less itself.
static std::vector<int64_t> countedBeside(std::vector<int64_t> after,
                                          const std::vector<int64_t> &most,
                                          const std::vector<int64_t> &besideIt) {
  for (size_t unit = 0; unit < after.size(); ++unit)
    after[unit] = std::max<int64_t>(0, after[unit] - (most[unit] - besideIt[unit]));
  return after;
}

namespace {

/// The most that a call has in a unit; -1 where it does nothing.
struct UnitMost {
  int64_t all = -1;
  int64_t below = -1, above = -1, outside = -1; ///< but for what lies in messages
  int64_t beside = 0;                           ///< in steps beside scatters
  int64_t scattered = 0, end = 0;               ///< as all of its gradients are there
};

} // namespace

/// By unit that is executed.
static std::vector<UnitMost> mostOfUnits(const std::vector<Temporary> &call,
                                         const StoredLiveness &stored, int storing, int units,
                                         const std::vector<bool> &besideScatters) {
  std::vector<UnitMost> result(units);
  for (const Temporary &at : call) {
    // What is scattered is made as a whole first.
    int64_t whole = storedAt(stored, at.step, storing);
    int64_t bytes = at.live + whole - at.atHome - (storing > 0 ? 0 : at.ofScattered);
    UnitMost &most = result[at.unit];
    most.all = std::max(most.all, bytes);
    most.below = std::max(most.below, bytes - at.below);
    most.above = std::max(most.above, bytes - at.above);
    most.outside = std::max(most.outside, bytes - at.outside);
    if (besideScatters[at.step])
      most.beside = std::max(most.beside, bytes);
    if (storing > 0 && stored.scattered[at.step] >= most.scattered) {
      most.scattered = stored.scattered[at.step];
      most.end = at.live - at.outside + whole;
    }
  }
  return result;
}

void UnitCosts::addTemporaries(const ExecutedSteps &steps, const StoredLiveness &stored) {
  for (int call = 0; call < kStageCalls; ++call) {
    auto kind = static_cast<StageCall>(call);
    const std::vector<Temporary> all = temporariesOf(
        steps.execution, steps.calls, kind, steps.units, scatteredGradients(steps.execution));
    for (int storing = 0; storing < kStorings; ++storing)
      addTemporaries(kind, storing, stored, steps.waits,
                     mostOfUnits(all, stored, storing, executedUnits(), steps.besideScatters));
  }
}

template <typename Most>
void UnitCosts::addTemporaries(StageCall kind, int storing, const StoredLiveness &stored,
                               const std::vector<bool> &waits, const std::vector<Most> &units) {
  auto whole = [&](int64_t Most::*bytes) {
    return forWhole([&](int unit) { return units[unit].*bytes; });
  };
  auto without = [&](int64_t Most::*bytes) {
    return forWhole([&](int unit) { return units[unit].all - units[unit].*bytes; });
  };
  const int call = int(kind);
  endOf[storing][call] = whole(&Most::end);
  inMessages[storing][call] = {without(&Most::below), without(&Most::above),
                               without(&Most::outside)};
  bool gathers = storing > 1 && kind != StageCall::WeightGrad;
  bool scatters = storing > 0 && kind != StageCall::Forward && kind != StageCall::InputGrad;
  bool forward = kind == StageCall::Forward;
  if (!gathers && !scatters) {
    mostOf[storing][call] = UnitPeaks(whole(&Most::all));
    return;
  }
  mostOf[storing][call] = peaksOf(whole(&Most::all), {stored, !forward, gathers, scatters, waits},
                                  whole(&Most::all), whole(&Most::beside));
}

/// `most`: of each unit, and in its steps beside scatters.
UnitPeaks UnitCosts::peaksOf(const std::vector<int64_t> &own, const Exchanged &exchanged,
                             const std::vector<int64_t> &most,
                             const std::vector<int64_t> &besideScatters) const {
  const auto &[stored, backward, gathers, scatters, waits] = exchanged;
  const std::vector<int64_t> nothing(units(), 0);
  auto each = [&](const std::vector<int64_t> &byBlock) {
    return forWhole([&](int unit) { return byBlock[blockOfUnit[unit]]; });
  };
  if (!exchanging) {
    const std::vector<int64_t> &after = backward ? stored.gradients : stored.forward;
    bool hasAfter = backward ? scatters : gathers;
    return UnitPeaks(own, {backward && gathers ? each(stored.backward) : nothing,
                           hasAfter ? each(after) : nothing, each(stored.gradients)});
  }
  UnitPeaks::Beside others{nothing, nothing, nothing};
  if (backward && gathers)
    others.ofBefore = beside(stored.backward, false);
  if (scatters) {
    others.ofAfter = countedBeside(beside(stored.gradients, true, waits), most, besideScatters);
    others.left = each(stored.gradients);
  } else if (!backward) {
    others.ofAfter = beside(stored.forward, true);
  }
  return UnitPeaks(
      own, others,
      neighboursOf(gathers ? each(backward ? stored.backward : stored.forward) : nothing,
                   scatters    ? others.left
                   : !backward ? each(stored.forward)
                               : nothing,
                   !backward));
}

int64_t UnitCosts::temporaryBytes(StageCall call, int a, int b, int zero, double share) const {
  if (a >= b)
    return 0;
  if (call == StageCall::Forward || call == StageCall::InputGrad)
    share = 0;
  const UnitPeaks &most = mostOf[storing(zero)][int(call)];
  const InMessages &less = inMessages[storing(zero)][int(call)];
  // The first unit's block scatters what it has when nothing else is left.
  int64_t end = endOf[storing(zero)][int(call)][a] + most.atEnd(a, b, share);
  if (b - a == 1)
    return std::max({int64_t{0}, end, most(a, b, share) - less.outside[a]});
  int64_t result = std::max({end, most.of(a, b, a, a + 1, share) - less.below[a],
                             most.of(a, b, b - 1, b, share) - less.above[b - 1]});
  if (b - a > 2)
    result = std::max(result, most.of(a, b, a + 1, b - 1, share) - passing[int(call)](a, b));
  return std::max<int64_t>(0, result);
}

/// `forward` and `backward`: of the whole model, with nothing stored in parts.
void UnitCosts::addPeaks(const ExecutedSteps &steps, const StoredLiveness &stored,
                         const std::vector<int64_t> &live, const std::vector<int64_t> &forward,
                         const std::vector<int64_t> &backward) {
  const RankExecution &execution = steps.execution;
  for (int storing = 0; storing < kStorings; ++storing) {
    std::vector<int64_t> plain[2], most[2], beforeWaits[2]; // by pass
    std::vector<int64_t> ends(executedUnits(), 0);
    for (auto *lists : {plain, most, beforeWaits})
      for (bool back : {false, true})
        lists[back].assign(executedUnits(), 0);
    for (size_t i = 0, end = execution.firstLeaving(); i < end; ++i) {
      bool back = execution.steps[i].backward();
      int unit = steps.units[i];
      plain[back][unit] = std::max(plain[back][unit], live[i]);
      int64_t bytes = live[i] + storedAt(stored, i, storing);
      most[back][unit] = std::max(most[back][unit], bytes);
      if (back && storing > 0)
        ends[unit] = bytes;
      if (steps.besideScatters[i])
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
    auto peaks = [&](bool back, const std::vector<int64_t> &whole) {
      std::vector<int64_t> own = raised(most[back], whole, back);
      return gathers || (back && scatters)
                 ? peaksOf(own, {stored, back, gathers, back && scatters, steps.waits},
                           ofWhole(most[back]), ofWhole(beforeWaits[back]))
                 : UnitPeaks(own);
    };
    mostForward[storing] = peaks(false, forward);
    mostBackward[storing] = peaks(true, backward);
  }
}

} // namespace dtc::plan
