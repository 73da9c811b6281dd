#include "dtc/Plan/Predict/UnitCosts.h"

#include "RemadeValues.h"
#include "TiedGradients.h"

#include "dtc/Plan/Plan/Crossings.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

PassSeconds &PassSeconds::operator+=(const PassSeconds &other) {
  forward += other.forward;
  recompute += other.recompute;
  inputGrad += other.inputGrad;
  weightGrad += other.weightGrad;
  return *this;
}

PassSeconds PassSeconds::operator-(const PassSeconds &other) const {
  return {forward - other.forward, recompute - other.recompute, inputGrad - other.inputGrad,
          weightGrad - other.weightGrad};
}

static int unitAmong(const std::vector<OpId> &cuts, OpId position) {
  auto after = std::upper_bound(cuts.begin(), cuts.end(), position);
  return std::clamp(static_cast<int>(after - cuts.begin()) - 1, 0,
                    static_cast<int>(cuts.size()) - 2);
}

int UnitCosts::unitOf(OpId position) const { return unitAmong(cuts, position); }
int UnitCosts::executedUnitOf(OpId position) const {
  return executedUnit[std::clamp<OpId>(position, 0, static_cast<OpId>(executedUnit.size()) - 1)];
}

std::vector<int> UnitCosts::unitsOf(OpId position) const {
  const FoldedUnits &fold = executed.units;
  int unit = executedUnitOf(position);
  std::vector<int> result;
  for (int copy = 0; copy < (fold.repeats(unit) ? fold.copies : 1); ++copy)
    result.push_back(fold.at(unit, copy));
  return result;
}

/// Whether a unit is in the block before the repeated one, or in that after it.
bool UnitCosts::isBefore(int unit) const {
  return unit < executed.units.first && unit >= executed.units.first - executed.units.count;
}
bool UnitCosts::isAfter(int unit) const {
  int end = executed.units.first + executed.units.count;
  return unit >= end && unit < end + executed.units.count;
}

bool UnitCosts::build(const Problem &problem, const ProblemFacts &facts,
                      const RankExecution &execution, const sharding::Mesh &mesh,
                      const std::vector<Block> &blocks) {
  for (OpId position = 0; position < std::max(1, executed.cuts.back()); ++position)
    executedUnit.push_back(unitAmong(executed.cuts, position));
  findBlocksOfUnits(blocks);
  const ExecutedSteps steps = stepsOf(problem, execution);
  addSeconds(steps);
  if (!addMemory(problem, facts, steps))
    return false;
  addTransfers(problem, facts, execution, mesh);
  addArguments(problem, facts, steps);
  return true;
}

UnitCosts::ExecutedSteps UnitCosts::stepsOf(const Problem &problem,
                                            const RankExecution &execution) const {
  ExecutedSteps result{execution, StageCalls(execution, problem), {}, {}, {}};
  result.units.reserve(execution.steps.size());
  for (const ExecutionStep &step : execution.steps)
    result.units.push_back(executedUnitOf(step.position));
  findWaits(result);
  return result;
}

UnitCosts::UnitCosts(const Problem &problem, const ProblemFacts &facts,
                     const RankExecution &execution, const sharding::Mesh &mesh,
                     std::vector<OpId> given, const std::vector<Block> &blocks,
                     StorageLevels levels)
    : cuts(std::move(given)), levels(std::move(levels)), executed{cuts, {}} {
  build(problem, facts, execution, mesh, blocks);
}

std::unique_ptr<UnitCosts> UnitCosts::ofFolded(const Problem &folded, const ProblemFacts &facts,
                                               const RankExecution &execution,
                                               const sharding::Mesh &mesh, const FoldedCuts &at,
                                               std::vector<OpId> cuts,
                                               const std::vector<Block> &blocks) {
  std::unique_ptr<UnitCosts> result(new UnitCosts);
  result->cuts = std::move(cuts);
  result->executed = at;
  return result->build(folded, facts, execution, mesh, blocks) ? std::move(result) : nullptr;
}

void UnitCosts::addSeconds(const ExecutedSteps &steps) {
  std::vector<PassSeconds> all(executedUnits()), exchanged(executedUnits()),
      launched(executedUnits());
  auto add = [](PassSeconds &to, const ExecutionStep &step, double seconds) {
    double PassSeconds::*pass = step.pass == StepPass::Forward     ? &PassSeconds::forward
                                : step.pass == StepPass::Recompute ? &PassSeconds::recompute
                                : step.pass == StepPass::InputGrad ? &PassSeconds::inputGrad
                                                                   : &PassSeconds::weightGrad;
    to.*pass += seconds;
  };
  for (size_t i = 0; i < steps.units.size(); ++i) {
    const ExecutionStep &step = steps.execution.steps[i];
    int unit = steps.units[i];
    add(all[unit], step, step.seconds);
    add(launched[unit], step, step.hostSeconds);
    if (step.collective && *step.collective != sharding::StepKind::Slice)
      add(exchanged[unit], step, step.seconds);
  }
  const FoldedUnits &fold = executed.units;
  std::vector<int> whole(units());
  for (int unit = 0; unit < executedUnits(); ++unit)
    for (int copy = 0; copy < (fold.repeats(unit) ? fold.copies : 1); ++copy)
      whole[fold.at(unit, copy)] = unit;
  auto sumUp = [&](std::vector<PassSeconds> &result, const std::vector<PassSeconds> &each) {
    result.assign(cuts.size(), {});
    for (int unit = 0; unit < units(); ++unit) {
      result[unit + 1] = result[unit];
      result[unit + 1] += each[whole[unit]];
    }
  };
  sumUp(sums, all);
  sumUp(collectives, exchanged);
  sumUp(hosts, launched);
}

//===-- memory ------------------------------------------------------------===//

/// By how much what is live grows from each copy of the repeated block to the next, the same in all
/// of its units. It is nullopt where it isn't so.
std::optional<int64_t> UnitCosts::growthOf(const std::vector<int64_t> &most) const {
  const FoldedUnits &fold = executed.units;
  std::optional<int64_t> growth;
  for (int unit = fold.first; unit < fold.first + fold.count; ++unit) {
    int64_t before = most[unit - fold.count], here = most[unit], after = most[unit + fold.count];
    if ((before < 0) != (here < 0) || (after < 0) != (here < 0))
      return std::nullopt;
    if (here < 0)
      continue;
    if (after - here != here - before || after - here != growth.value_or(after - here))
      return std::nullopt;
    growth = after - here;
  }
  return growth.value_or(0);
}

/// What leaves beside the repeated block, before all of its copies or after; false
/// where it is between them.
bool UnitCosts::addLeaving(const ExecutedSteps &steps, const std::vector<int64_t> &live,
                           int64_t left, std::vector<int64_t> &forward,
                           std::vector<int64_t> &backward) const {
  const FoldedUnits &fold = executed.units;
  const RankExecution &execution = steps.execution;
  size_t leaving = execution.firstLeaving();
  std::optional<size_t> firstCopy, lastCopy;
  for (size_t i = leaving; i < execution.steps.size(); ++i)
    if (fold.repeats(steps.units[i])) {
      firstCopy = firstCopy.value_or(i);
      lastCopy = i;
    }
  for (size_t i = leaving; i < execution.steps.size(); ++i) {
    int unit = steps.units[i];
    if (fold.repeats(unit))
      continue;
    bool isBefore = firstCopy && i < *firstCopy;
    if (firstCopy && !isBefore && i < *lastCopy)
      return false;
    int64_t &at = (execution.steps[i].backward() ? backward : forward)[fold.at(unit)];
    at = std::max(at, live[i] + (isBefore ? (fold.copies - 1) * left : 0));
  }
  return true;
}

/// The most that is live in each unit, by pass. A block keeps `kept` bytes from its
/// forward to its backward pass, and leaves `left` bytes of gradients to the end.
bool UnitCosts::addLive(const ExecutedSteps &steps, const std::vector<int64_t> &live,
                        std::vector<int64_t> &forward, std::vector<int64_t> &backward) const {
  constexpr int64_t none = -1;
  const FoldedUnits &fold = executed.units;
  std::vector<int64_t> most[2][2]; // by whether leaving, and pass
  for (auto &lists : most)
    for (std::vector<int64_t> &list : lists)
      list.assign(executedUnits(), none);
  size_t leaving = steps.execution.firstLeaving();
  for (size_t i = 0; i < steps.units.size(); ++i) {
    bool isBackward = steps.execution.steps[i].backward();
    int64_t &at = most[i >= leaving][isBackward][steps.units[i]];
    at = std::max(at, live[i]);
  }
  int64_t kept = 0, left = 0;
  if (fold.copies > 1) {
    auto rising = growthOf(most[0][0]), falling = growthOf(most[0][1]), last = growthOf(most[1][1]);
    if (!rising || !falling || !last || growthOf(most[1][0]) != 0)
      return false;
    kept = *rising;
    left = kept - *falling;
    bool anyBackward = *std::max_element(most[0][1].begin(), most[0][1].end()) >= 0;
    if (anyBackward && *last != -left)
      return false;
  }
  for (bool back : {false, true}) {
    std::vector<int64_t> &whole = back ? backward : forward;
    whole.assign(units(), 0);
    for (int unit = 0; unit < executedUnits(); ++unit)
      for (int copy = 0; copy < (fold.repeats(unit) ? fold.copies : 1); ++copy) {
        int64_t &at = whole[fold.at(unit, copy)];
        // Copies that come before it in the model, and after it.
        int before = unit < fold.first ? 0 : fold.repeats(unit) ? copy : fold.copies - 1;
        int after = fold.copies - 1 - before;
        if (int64_t bytes = most[0][back][unit]; bytes >= 0)
          at = std::max(at, bytes + before * kept + (back ? after * left : 0));
        if (int64_t bytes = most[1][back][unit]; bytes >= 0 && fold.repeats(unit))
          at = std::max(at, bytes + after * left);
      }
  }
  return addLeaving(steps, live, left, forward, backward);
}

/// Adds a buffer of the forward pass to all stages that neither make nor read it. They begin while
/// it is there in the execution of the whole model.
static void addBefore(const UnitUse &use, StageTable &outside) {
  std::vector<int> readers = use.forward;
  readers.insert(readers.end(), use.backward.begin(), use.backward.end());
  keepDistinct(readers);
  int from = use.writer + 1;
  for (int reader : readers) {
    outside.addToStagesWithin(from, reader, use.bytes);
    from = std::max(from, reader + 1);
  }
  if (!use.backward.empty())
    outside.addToStagesWithin(from, outside.units(), use.bytes);
}

/// The same for a buffer of the backward pass, which comes from units after the stage.
static void addAfter(const UnitUse &use, StageTable &outside) {
  for (size_t i = 0; i < use.backward.size(); ++i) {
    int next = i + 1 < use.backward.size() ? use.backward[i + 1] : use.writer;
    outside.addToStagesWithin(use.backward[i] + 1, std::min(use.writer, next), use.bytes);
  }
}

/// What a call makes before a stage, or after it in the backward pass, for what comes behind the
/// stage: it is in messages there.
static void addPassing(const UnitUse &use, StageTable passing[kStageCalls]) {
  auto add = [&](StageCall call, int first, int end) {
    passing[int(call)].addToStagesWithin(first, end, use.bytes);
  };
  if (use.isTerm)
    return;
  if (use.forwardWriter && use.backward.empty() && !use.forward.empty())
    add(StageCall::Forward, use.writer + 1, use.forward.back());
  if (use.forwardWriter || use.backward.empty())
    return;
  add(StageCall::Backward, use.backward.front() + 1, use.writer);
  if (use.late.empty())
    add(StageCall::InputGrad, use.backward.front() + 1, use.writer);
}

namespace {
/// What values take in stages, by when they are held.
struct MemoryTables {
  explicit MemoryTables(int units)
      : saved(units), remadeSaved(units), lateSaved(units), waiting(units), before(units),
        after(units) {
    for (StageTable &each : passing)
      each = StageTable(units);
  }
  void add(const UnitUse &use) {
    addPassing(use, passing);
    if (use.isCopy)
      addReceived(use);
    if (!use.late.empty())
      (use.forwardWriter ? lateSaved : waiting).addToStagesWith(use.late, use.bytes);
    if (use.forwardWriter) {
      saved.addToStagesWith(use.backward, use.bytes); // kept where it is read again
      if (use.isStatic)
        remadeSaved.addToStagesWith(use.backward, use.bytes);
      else if (use.remadeFrom >= 0)
        addRemade(use, remadeSaved);
      addBefore(use, before);
    } else {
      addAfter(use, after);
    }
  }
  /// Stages with readers of a copy that begin after its writer keep what they received.
  void addReceived(const UnitUse &use) {
    auto addTo = [&](StageTable &table, const std::vector<int> &readers, int64_t bytes) {
      std::vector<int> units{use.writer};
      std::ranges::copy_if(readers, std::back_inserter(units),
                           [&](int unit) { return unit > use.writer; });
      table.addToStagesWith(units, bytes);
      table.addToStagesWith({use.writer}, -bytes);
    };
    addTo(saved, use.backward, use.bytes);
    addTo(lateSaved, use.late, use.bytes);
    addTo(waiting, use.late, -use.bytes);
  }
  StageTable saved, remadeSaved, lateSaved, waiting, before, after, passing[kStageCalls];
};
} // namespace

/// By stages that begin with the sum, or behind it, and end before a term is made.
StageTable UnitCosts::termsOfOthers(const std::vector<TermOfOthers> &terms) const {
  StageTable result(units());
  const FoldedUnits &fold = executed.units;
  for (const TermOfOthers &term : terms)
    if (!fold.repeats(term.sum) && !fold.repeats(term.maker))
      result.addToStagesWithin(fold.at(term.sum), fold.at(term.maker), term.bytes);
  result.finish();
  return result;
}

StoredInStages UnitCosts::storedOf(const Problem &problem, const ExecutedSteps &steps) const {
  const int count = blockOfUnit.back() + 1;
  if (storings(steps.execution) == 1)
    return {nothingStored(steps.units.size(), count), nothingStored(steps.units.size(), count)};
  std::vector<int> blocks;
  for (int unit : steps.units)
    blocks.push_back(blockOfUnit[unit]);
  StoredInStages stored = storedLiveness(steps.execution, problem, count, blocks, levels);
  addTiedGradients(stored.apart, steps.execution, problem, blocks, levels, !exchanging);
  return stored;
}

bool UnitCosts::addMemory(const Problem &problem, const ProblemFacts &facts,
                          const ExecutedSteps &steps) {
  std::vector<UnitUse> uses = usesOf(problem, facts, steps);
  if (!inStep(uses))
    return false;
  const FoldedUnits &fold = executed.units;
  MemoryTables all(units()), repeated(units());
  for (const UnitUse &use : uses)
    if (fold.copies == 1)
      all.add(use);
    else if (fold.repeats(use.writer))
      repeated.add(use);
    else
      all.add(wholeUse(use));
  for (StageTable MemoryTables::*table :
       {&MemoryTables::saved, &MemoryTables::remadeSaved, &MemoryTables::lateSaved,
        &MemoryTables::waiting, &MemoryTables::before, &MemoryTables::after}) {
    (all.*table).addCopies(repeated.*table, fold.count, fold.copies);
    (all.*table).finish();
  }
  for (int call = 0; call < kStageCalls; ++call) {
    all.passing[call].addCopies(repeated.passing[call], fold.count, fold.copies);
    all.passing[call].finish();
    passing[call] = std::move(all.passing[call]);
  }
  saved = std::move(all.saved);
  remadeSaved = std::move(all.remadeSaved);
  lateSaved = std::move(all.lateSaved);
  waiting = std::move(all.waiting);
  before = std::move(all.before);
  after = std::move(all.after);
  const LiveBytes live = liveBytes(steps.execution);
  std::vector<int64_t> forward, backward;
  if (!addLive(steps, live.during, forward, backward))
    return false;
  executedUses = std::move(uses);
  const StoredInStages stored = storedOf(problem, steps);
  addTemporaries(steps, stored.apart);
  addPeaks(steps, stored.joined, live, forward, backward);
  return true;
}

int64_t UnitCosts::peakBytes(int a, int b, int zero, double share) const {
  if (a >= b)
    return 0;
  int64_t earlier = before(a, b), others = earlier + after(a, b);
  const UnitPeaks &most = mostBackward[storing(zero)], &end = endBackward[storing(zero)];
  const int64_t last =
      end.isEmpty() ? 0 : end.of(a, b, a, b, share) + end.atEnd(a, b, share) - others;
  return std::max({mostForward[storing(zero)](a, b) - earlier, most(a, b, share) - others, last,
                   savedBytes(a, b)});
}

//===-- transfers ---------------------------------------------------------===//

void UnitCosts::addTransfers(const Problem &problem, const ProblemFacts &facts,
                             const RankExecution &execution, const sharding::Mesh &mesh) {
  std::vector<int64_t> forward(cuts.size() + 1, 0), backward(cuts.size() + 1, 0);
  // Over all cuts between two units of the execution.
  const FoldedUnits &fold = executed.units;
  auto send = [&](std::vector<int64_t> &sent, int from, int to, int64_t amount) {
    for (int copy = 0; copy < (fold.repeats(from) ? fold.copies : 1); ++copy) {
      int begin = fold.at(from, copy), end = begin + to - from; // beside each other
      if (!fold.repeats(from))
        end = fold.at(to, to > from ? (isBefore(from) ? 0 : fold.copies - 1)
                                    : (isAfter(from) ? fold.copies - 1 : 0));
      sent[std::min(begin, end) + 1] += amount;
      sent[std::max(begin, end) + 1] -= amount;
    }
  };
  std::vector<int> parts =
      partsOfOps(problem, facts, [&](OpId position) { return executedUnitOf(position); });
  for (const Crossing &crossing : crossingsOf(problem, facts, parts))
    send(crossing.to > crossing.from ? forward : backward, crossing.from, crossing.to,
         localBytes(problem.values[crossing.value], execution.shardingOf(crossing.value), mesh));
  for (size_t i = 1; i < forward.size(); ++i) {
    forward[i] += forward[i - 1];
    backward[i] += backward[i - 1];
  }
  sentForward = std::move(forward);
  sentBackward = std::move(backward);
}

} // namespace dtc::plan
