// Which units make and read each buffer.
#include "dtc/Plan/Predict/UnitCosts.h"

#include "RemadeValues.h"

#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

/// By units of the execution; of a folded one, buffers that are used alike are one.
std::vector<UnitUse> UnitCosts::usesOf(const Problem &problem, const ProblemFacts &facts,
                                       const ExecutedSteps &steps) const {
  const RankExecution &execution = steps.execution;
  const StageCalls &calls = steps.calls;
  std::vector<UnitUse> uses(execution.buffers.size());
  auto add = [](std::vector<int> &to, int unit) {
    if (to.empty() || to.back() != unit)
      to.push_back(unit);
  };
  for (size_t i = 0; i < execution.steps.size(); ++i) {
    const ExecutionStep &step = execution.steps[i];
    int unit = steps.units[i];
    for (int buffer : step.writes)
      if (uses[buffer].writer < 0) {
        uses[buffer].writer = unit;
        uses[buffer].forwardWriter = !step.backward();
        uses[buffer].isStatic = step.op >= 0 && facts.isStatic[step.op];
        uses[buffer].isCopy = execution.buffers[buffer].isCopy && !uses[buffer].isStatic;
      }
    for (int buffer : step.reads) {
      add(step.backward() ? uses[buffer].backward : uses[buffer].forward, unit);
      if (calls.has(StageCall::WeightGrad, i) && calls.isReadLate(buffer))
        add(uses[buffer].late, unit);
      uses[buffer].isTerm |= calls.readsTerms(i);
    }
  }
  if (execution.hasPlaces())
    findRemade(problem, facts, execution, steps.units, uses);
  std::vector<UnitUse> result;
  std::map<UnitUse, int64_t> bytes;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].writer < 0 || execution.buffers[i].persistent)
      continue;
    keepDistinct(uses[i].forward);
    keepDistinct(uses[i].backward);
    keepDistinct(uses[i].late);
    if (executed.units.copies > 1) {
      bytes[std::move(uses[i])] += execution.buffers[i].bytes;
      continue;
    }
    result.push_back(std::move(uses[i]));
    result.back().bytes = execution.buffers[i].bytes;
  }
  for (const auto &[use, sum] : bytes) {
    result.push_back(use);
    result.back().bytes = sum;
  }
  return result;
}

static UnitUse shifted(UnitUse use, int units) {
  use.writer += units;
  if (use.remadeFrom >= 0) {
    use.remadeFrom += units;
    use.remadeTo += units;
  }
  for (std::vector<int> *list : {&use.forward, &use.backward, &use.late})
    for (int &unit : *list)
      unit += units;
  return use;
}

/// Whether the repeated block and those beside it make and use the same.
bool UnitCosts::inStep(const std::vector<UnitUse> &uses) const {
  const FoldedUnits &fold = executed.units;
  std::vector<UnitUse> before, repeated, after;
  for (const UnitUse &use : uses) {
    if (isBefore(use.writer))
      before.push_back(shifted(use, fold.count));
    else if (fold.repeats(use.writer))
      repeated.push_back(use);
    else if (isAfter(use.writer))
      after.push_back(shifted(use, -fold.count));
  }
  for (std::vector<UnitUse> *list : {&before, &repeated, &after})
    std::sort(list->begin(), list->end());
  return fold.copies == 1 || (before == repeated && after == repeated);
}

/// The same of the whole model, of what the repeated block doesn't make. That exchanges values
/// with the two beside it; what others make is for all of its copies.
UnitUse UnitCosts::wholeUse(const UnitUse &use) const {
  const FoldedUnits &fold = executed.units;
  auto whole = [&](const std::vector<int> &units) {
    std::vector<int> list;
    for (int unit : units)
      if (!fold.repeats(unit) || isBefore(use.writer))
        list.push_back(fold.at(unit));
      else if (isAfter(use.writer))
        list.push_back(fold.at(unit, fold.copies - 1));
      else
        for (int copy = 0; copy < fold.copies; ++copy)
          list.push_back(fold.at(unit, copy));
    std::sort(list.begin(), list.end());
    return list;
  };
  UnitUse result{fold.at(use.writer), use.forwardWriter, whole(use.forward), whole(use.backward),
                 whole(use.late),     use.isTerm,        use.isStatic};
  result.isCopy = use.isCopy;
  result.bytes = use.bytes;
  if (use.remadeFrom >= 0) {
    result.remadeFrom = whole({use.remadeFrom}).back();
    result.remadeTo = whole({use.remadeTo}).front();
  }
  return result;
}

} // namespace dtc::plan
