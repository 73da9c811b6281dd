// The most that the units of a stage have at a time.
#include "dtc/Plan/Predict/UnitCosts.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

static std::vector<int64_t> sumsOf(std::vector<int64_t> first, const std::vector<int64_t> &second) {
  for (size_t unit = 0; unit < first.size(); ++unit)
    first[unit] += second[unit];
  return first;
}
/// Of gradients that wait, what one of the shares of UnitPeaks::kLeft takes.
static int64_t waitingOf(int64_t bytes, size_t i) {
  return i > 0 ? std::llround(UnitPeaks::kLeft[i] * double(bytes)) : 0;
}
static RangeMax sumOf(std::vector<int64_t> first, const std::vector<int64_t> &second) {
  return RangeMax(sumsOf(std::move(first), second));
}

UnitPeaks::UnitPeaks(const std::vector<int64_t> &each, const Beside &beside,
                     std::shared_ptr<const UnitNeighbours> given)
    : units(each.size()), neighbours(std::move(given)), left(beside.left), ownLeft(beside.ownLeft) {
  if (std::ranges::all_of(left, [](int64_t bytes) { return bytes == 0; }))
    left.clear(); // most have nothing, and need no peaks by share
  for (size_t i = 0; i < (left.empty() ? 1 : std::size(kLeft)); ++i) {
    auto waiting = [&](const std::vector<int64_t> &of, size_t unit) {
      return unit < of.size() ? waitingOf(of[unit], i) : 0;
    };
    std::vector<int64_t> alone = each, after;
    for (size_t unit = 0; unit < units; ++unit) {
      alone[unit] += waiting(ownLeft, unit);
      alone[unit] += beside.within[i].empty() ? 0 : beside.within[i][unit];
      after.push_back(alone[unit] + beside.ofAfter[unit] + waiting(left, neighbours->after[unit]));
    }
    withBefore[i] = sumOf(alone, beside.ofBefore);
    withBoth[i] =
        sumOf(beside.together.empty() ? after : sumsOf(after, beside.together), beside.ofBefore);
    own[i] = RangeMax(std::move(alone));
    withAfter[i] = RangeMax(std::move(after));
  }
}

UnitPeaks::UnitPeaks(std::vector<int64_t> each, const Beside &ofUnits)
    : units(each.size()), left(ofUnits.left) {
  sumBefore = sumAfter = {0};
  for (size_t unit = 0; unit < each.size(); ++unit) {
    sumBefore.push_back(sumBefore.back() + ofUnits.ofBefore[unit]);
    sumAfter.push_back(sumAfter.back() + ofUnits.ofAfter[unit]);
    each[unit] += sumBefore[unit] - sumAfter[unit + 1];
  }
  own[0] = RangeMax(std::move(each));
}

int64_t UnitPeaks::of(int a, int b, int from, int to, double share) const {
  if (!sumAfter.empty())
    return own[0](from, to) - sumBefore[a] + sumAfter[b];
  if (!neighbours)
    return own[0](from, to);
  const int first = std::min(neighbours->firstBefore[a], b);
  const int last = std::max(neighbours->endAfter[b - 1], a);
  const int begin = std::min(std::max(neighbours->firstAfter[a], a), last);
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
  if (first >= b && begin >= last) {
    add(own, from, to);
    return most;
  }
  add(own, a, begin);
  add(withAfter, begin, std::min(first, last));
  add(withBoth, std::max(first, begin), last);
  add(own, last, first);
  add(withBefore, std::max(first, last), b);
  return most;
}

int64_t UnitPeaks::atEnd(int a, int b, double share) const {
  if (left.empty())
    return 0;
  if (!sumAfter.empty())
    return std::llround(share * double(sumAfter[b] - sumAfter[a]));
  return ownLeft[a] > 0 ? 0 : std::llround(share * double(left[a])); // a part of its block
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

/// Of what each block has, by unit of the whole model.
std::vector<int64_t> UnitCosts::ofBlocks(const std::vector<int64_t> &byBlock) const {
  return forWhole([&](int unit) { return byBlock[blockOfUnit[unit]]; });
}

/// Of units that hold something of other blocks in a pass. Those gathered ahead in the forward pass
/// count only from the first block of a stage on that has something itself.
std::shared_ptr<const UnitNeighbours> UnitCosts::neighboursOf(const Exchanged &exchanged) const {
  const auto &[stored, backward, gathers, scatters, waits] = exchanged;
  const std::vector<int64_t> nothing(units(), 0);
  const std::vector<int64_t> before =
      gathers ? ofBlocks(backward ? stored.backward : stored.forward) : nothing;
  const std::vector<int64_t> after = scatters    ? ofBlocks(stored.gradients)
                                     : !backward ? ofBlocks(stored.forward)
                                                 : nothing;
  const bool gathersAhead = !backward;
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
static int64_t storedAt(const StoredLiveness &stored, size_t step, bool scatters, bool gathers) {
  return (scatters ? stored.scattered[step] + stored.underWay[step] : 0) +
         (gathers ? stored.gathered[step] : 0);
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

/// Of what a block beside each unit's own has, what counts beside the unit's most. In the steps
/// during which it is there, the unit may have less itself.
static std::vector<int64_t> countedBeside(std::vector<int64_t> other,
                                          const std::vector<int64_t> &most,
                                          const std::vector<int64_t> &besideIt) {
  for (size_t unit = 0; unit < other.size(); ++unit)
    other[unit] = std::max<int64_t>(0, other[unit] - (most[unit] - besideIt[unit]));
  return other;
}

/// What a unit has with both blocks beside it in the steps of both, beyond what is counted.
static std::vector<int64_t> countedTogether(const std::vector<int64_t> &both,
                                            const std::vector<std::vector<int64_t>> &others,
                                            const std::vector<std::vector<int64_t>> &counted) {
  std::vector<int64_t> result = both;
  for (size_t unit = 0; unit < both.size(); ++unit) {
    for (const std::vector<int64_t> &bytes : others)
      result[unit] += bytes[unit];
    for (const std::vector<int64_t> &bytes : counted)
      result[unit] -= bytes[unit];
    result[unit] = both[unit] < 0 ? 0 : std::max<int64_t>(0, result[unit]);
  }
  return result;
}

/// Whether a step comes after that before which its unit's pass gathers for the next unit.
static bool isBesideGathers(const StoredLiveness &stored, size_t step, int unit) {
  const size_t from = stored.gathersNext[unit];
  return step >= from || from >= stored.gathered.size();
}

namespace {

/// The most that a call has in a unit; -1 where it does nothing.
struct UnitMost {
  int64_t all = -1;
  int64_t below = -1, above = -1, outside = -1; ///< but for what lies in messages
  int64_t besideScatters = 0, besideGathers = 0; ///< in steps beside those of other units
  int64_t besideBoth = -1;                       ///< -1: there is no such step
  /// After the step that leaves all of its gradients, with what lies in messages then.
  int64_t scattered = 0, end = 0, endInMessages = 0;
  int64_t tied = 0; ///< of what is scattered then, what waits beside the rest of its block's
  /// In steps beside what waits, with parts of that by UnitPeaks::kLeft.
  std::array<int64_t, std::size(UnitPeaks::kLeft)> within = {};
};

} // namespace

/// By unit that is executed.
static std::vector<UnitMost> mostOfUnits(StageCall kind, const std::vector<Temporary> &call,
                                         const StoredLiveness &stored, int storing, int units,
                                         const std::vector<bool> &besideScatters,
                                         const std::vector<int> &blockOfUnit) {
  // Where the backward pass comes in two calls, parameters are gathered for the first one alone.
  const bool scatters = storing > 0 && kind != StageCall::InputGrad;
  const bool gathers = storing > 1 && kind != StageCall::WeightGrad;
  std::vector<UnitMost> result(units);
  for (const Temporary &at : call) {
    // What is scattered is made as a whole first.
    const int64_t whole = storedAt(stored, at.step, scatters, gathers);
    int64_t bytes = at.live + whole - at.atHome - (storing > 0 ? 0 : at.ofScattered);
    UnitMost &most = result[at.unit];
    most.all = std::max(most.all, bytes);
    most.below = std::max(most.below, bytes - at.below);
    most.above = std::max(most.above, bytes - at.above);
    most.outside = std::max(most.outside, bytes - at.outside);
    const int block = blockOfUnit[at.unit];
    const bool isBeside = kind == StageCall::Forward || isBesideGathers(stored, at.step, block);
    const int64_t apart = bytes - (gathers ? stored.again[at.step] : 0);
    if (besideScatters[at.step])
      most.besideScatters = std::max(most.besideScatters, bytes);
    if (isBeside)
      most.besideGathers = std::max(most.besideGathers, apart);
    if (isBeside && besideScatters[at.step])
      most.besideBoth = std::max(most.besideBoth, apart);
    const int64_t tied = storing > 0 && !stored.tied.empty() ? stored.tied[at.step] : 0;
    for (size_t i = 0; i < (tied > 0 ? std::size(UnitPeaks::kLeft) : 0); ++i)
      most.within[i] = std::max(most.within[i], bytes + waitingOf(tied, i));
    const int64_t leaves = storing > 0 && !stored.leaves.empty() ? stored.leaves[at.step] : 0;
    if (storing > 0 && stored.scattered[at.step] + leaves >= most.scattered) {
      most.scattered = stored.scattered[at.step] + leaves;
      most.end = at.after + most.scattered;
      most.endInMessages = at.afterOutside;
      // As a block ends, what is left of all that it scatters has tied gradients, too.
      const bool ends = at.unit == 0 || blockOfUnit[at.unit - 1] != block;
      most.tied = std::max<int64_t>(0, tied + leaves - (ends ? stored.tiedGradients[block] : 0));
    }
  }
  return result;
}

/// Of programs without places, StageCosts asks for gradients of weights alone.
void UnitCosts::addTemporaries(const ExecutedSteps &steps, const StoredLiveness &stored) {
  for (int call = 0; call < kStageCalls; ++call) {
    auto kind = static_cast<StageCall>(call);
    if (!steps.execution.hasPlaces() && kind != StageCall::WeightGrad)
      continue;
    const auto [all, terms] = temporariesOf(steps.execution, steps.calls, kind, steps.units,
                                            scatteredGradients(steps.execution));
    othersTerms[call] = termsOfOthers(terms);
    for (int storing = 0; storing < storings(steps.execution); ++storing)
      addTemporaries(kind, storing, stored, steps.waits,
                     mostOfUnits(kind, all, stored, storing, executedUnits(), steps.besideScatters,
                                 blockOfUnit));
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
  inMessages[storing][call] = {without(&Most::below), without(&Most::above),
                               without(&Most::outside)};
  bool gathers = storing > 1 && kind != StageCall::WeightGrad;
  bool scatters = storing > 0 && kind != StageCall::Forward && kind != StageCall::InputGrad;
  bool forward = kind == StageCall::Forward;
  if (!gathers && !scatters) {
    mostOf[storing][call] = UnitPeaks(whole(&Most::all));
    return;
  }
  const Exchanged exchanged{stored, !forward, gathers, scatters, waits};
  UnitPeaks::ByShare within, withinEnd;
  const bool ties = scatters && std::ranges::any_of(
                                    units, [](const Most &unit) { return unit.within.back() > 0; });
  for (size_t i = 0; ties && i < within.size(); ++i) {
    within[i] = forWhole([&](int unit) {
      return std::max<int64_t>(0, units[unit].within[i] - std::max<int64_t>(0, units[unit].all));
    });
    withinEnd[i] = forWhole([&](int unit) { return waitingOf(units[unit].tied, i); });
  }
  mostOf[storing][call] =
      peaksOf(whole(&Most::all), exchanged,
              {whole(&Most::all), whole(&Most::besideScatters), whole(&Most::besideGathers),
               whole(&Most::besideBoth), std::move(within)});
  if (scatters) {
    endOf[storing][call] = endsOf(whole(&Most::end), exchanged, std::move(withinEnd));
    endInMessages[storing][call] = whole(&Most::endInMessages);
  }
}

UnitPeaks UnitCosts::peaksOf(const std::vector<int64_t> &own, const Exchanged &exchanged,
                             const Most &most) const {
  const auto &[stored, backward, gathers, scatters, waits] = exchanged;
  const std::vector<int64_t> nothing(units(), 0);
  if (!exchanging) {
    const std::vector<int64_t> &after = backward ? stored.gradients : stored.forward;
    bool hasAfter = backward ? scatters : gathers;
    return UnitPeaks(own, {backward && gathers ? ofBlocks(stored.backward) : nothing,
                           hasAfter ? ofBlocks(after) : nothing, ofBlocks(stored.gradients)});
  }
  UnitPeaks::Beside others{nothing, nothing, nothing};
  others.within = most.within;
  if (backward && gathers)
    others.ofBefore = countedBeside(beside(stored.backward, false), most.all, most.besideGathers);
  if (scatters) {
    others.ofAfter =
        countedBeside(beside(stored.gradients, true, waits), most.all, most.besideScatters);
    others.left = ofBlocks(stored.gradients);
    if (gathers)
      others.together = countedTogether(
          most.besideBoth, {beside(stored.backward, false), beside(stored.gradients, true, waits)},
          {most.all, others.ofBefore, others.ofAfter});
  } else if (!backward) {
    others.ofAfter = countedBeside(beside(stored.forward, true), most.all, most.besideGathers);
  }
  return UnitPeaks(own, others, neighboursOf(exchanged));
}

/// As a block scatters its gradients, those of the block after it may not be added up yet
/// (Bucket.cpp), and the next block's parameters are there. `own`: of units after their last step.
UnitPeaks UnitCosts::endsOf(std::vector<int64_t> own, const Exchanged &exchanged,
                            UnitPeaks::ByShare within) const {
  const std::vector<int64_t> nothing(units(), 0), gradients = ofBlocks(exchanged.stored.gradients);
  if (!exchanging)
    return UnitPeaks(std::move(own), {nothing, gradients, gradients});
  UnitPeaks::Beside others{nothing, nothing, gradients, gradients};
  others.within = std::move(within);
  if (exchanged.gathers)
    others.ofBefore = beside(exchanged.stored.backward, false);
  const std::vector<int64_t> after = beside(exchanged.stored.gradients, true, exchanged.waits);
  const std::vector<int64_t> hasWaited =
      forWhole([&](int unit) -> int64_t { return exchanged.waits[blockOfUnit[unit]]; });
  for (int unit = 0; unit < units(); ++unit) {
    others.ofAfter[unit] = hasWaited[unit] ? 0 : after[unit];
    if (exchanging->begin[unit] != unit)
      others.ownLeft[unit] = 0; // its block goes on
  }
  return UnitPeaks(own, others, neighboursOf(exchanged));
}

int64_t UnitCosts::temporaryBytes(StageCall call, int a, int b, int zero, double share) const {
  if (a >= b)
    return 0;
  if (call == StageCall::Forward || call == StageCall::InputGrad)
    share = 0;
  const UnitPeaks &most = mostOf[storing(zero)][int(call)];
  const InMessages &less = inMessages[storing(zero)][int(call)];
  const UnitPeaks &ends = endOf[storing(zero)][int(call)];
  const int64_t ofOthers = storing(zero) > 0 ? othersTerms[int(call)](a, b) : 0;
  int64_t end = 0;
  if (!ends.isEmpty())
    end = ends.of(a, b, a, a + 1, share) + ends.atEnd(a, b, share) -
          endInMessages[storing(zero)][int(call)][a];
  if (!ends.isEmpty() && b - a > 1)
    end = std::max(end, ends.of(a, b, a + 1, b, share) - passing[int(call)](a, b) - ofOthers);
  int64_t result = 0;
  if (b - a == 1)
    result = most(a, b, share) - less.outside[a];
  else
    result = std::max(most.of(a, b, a, a + 1, share) - less.below[a],
                      most.of(a, b, b - 1, b, share) - less.above[b - 1]);
  if (b - a > 2)
    result = std::max(result, most.of(a, b, a + 1, b - 1, share) - passing[int(call)](a, b));
  return std::max({int64_t{0}, end, result - ofOthers});
}

/// What each executed unit has of the whole execution, with a level of ZeRO.
void UnitCosts::addSteps(const ExecutedSteps &steps, const StoredLiveness &stored,
                         const LiveBytes &live, int storing, PassMost of[2]) const {
  for (bool back : {false, true})
    of[back] = PassMost(executedUnits());
  const RankExecution &execution = steps.execution;
  for (size_t i = 0, end = execution.firstLeaving(); i < end; ++i) {
    const int unit = steps.units[i];
    PassMost &most = of[execution.steps[i].backward()];
    auto raise = [&](std::vector<int64_t> &to, int64_t bytes) {
      to[unit] = std::max(to[unit], bytes);
    };
    int64_t bytes = live.during[i] + storedAt(stored, i, storing > 0, storing > 1);
    raise(most.plain, live.during[i]);
    raise(most.all, bytes);
    if (steps.besideScatters[i])
      raise(most.besideScatters, bytes);
    const bool isBeside =
        !execution.steps[i].backward() || isBesideGathers(stored, i, blockOfUnit[unit]);
    if (isBeside)
      raise(most.besideGathers, bytes);
    if (isBeside && steps.besideScatters[i])
      raise(most.besideBoth, bytes);
    most.end[unit] = live.after[i] + stored.scattered[i];
  }
}

/// `forward` and `backward`: of the whole model, with nothing stored in parts.
void UnitCosts::addPeaks(const ExecutedSteps &steps, const StoredLiveness &stored,
                         const LiveBytes &live, const std::vector<int64_t> &forward,
                         const std::vector<int64_t> &backward) {
  for (int storing = 0; storing < storings(steps.execution); ++storing) {
    PassMost found[2]; // by pass
    addSteps(steps, stored, live, storing, found);
    for (bool back : {false, true}) {
      const PassMost &of = found[back];
      const std::vector<int64_t> before = ofWhole(of.plain);
      auto raised = [&](const std::vector<int64_t> &bytes) {
        std::vector<int64_t> result = ofWhole(bytes);
        for (size_t unit = 0; unit < result.size(); ++unit)
          result[unit] += (back ? backward : forward)[unit] - before[unit];
        return result;
      };
      const bool gathers = storing > 1, scatters = back && storing > 0;
      const Exchanged exchanged{stored, back, gathers, scatters, steps.waits};
      std::vector<int64_t> own = raised(of.all);
      (back ? mostBackward : mostForward)[storing] =
          gathers || scatters ? peaksOf(own, exchanged,
                                        {ofWhole(of.all), ofWhole(of.besideScatters),
                                         ofWhole(of.besideGathers), ofWhole(of.besideBoth)})
                              : UnitPeaks(own);
      if (scatters)
        endBackward[storing] = endsOf(raised(of.end), exchanged);
    }
  }
}

} // namespace dtc::plan
