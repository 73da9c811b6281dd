// Which units read the arguments of a model.
#include "dtc/Plan/Predict/UnitCosts.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>

namespace dtc::plan {

/// What is computed from buffers alone is computed where it is needed, which takes these there.
static std::vector<OpId> readersOf(ValueId value, const Problem &problem,
                                   const ProblemFacts &facts) {
  std::vector<OpId> result = facts.consumers[value];
  for (size_t i = 0; i < result.size(); ++i)
    if (facts.isStatic[result[i]])
      for (ValueId made : problem.ops[result[i]].results)
        for (OpId reader : facts.consumers[made])
          if (std::find(result.begin(), result.end(), reader) == result.end())
            result.push_back(reader);
  return result;
}

/// Of the whole model, for what has so many copies.
std::vector<int> UnitCosts::wholeReaders(const std::vector<int> &readers, int copies) const {
  const FoldedUnits &fold = executed.units;
  std::vector<int> result;
  for (int unit : readers)
    for (int copy = 0; copy < (copies == 1 && fold.repeats(unit) ? fold.copies : 1); ++copy)
      result.push_back(fold.at(unit, copy));
  keepDistinct(result);
  return result;
}

void UnitCosts::addArguments(const Problem &problem, const ProblemFacts &facts,
                             const ExecutedSteps &steps) {
  const FoldedUnits &fold = executed.units;
  const RankExecution &execution = steps.execution;
  std::vector<std::vector<int>> byPass[2]; // executed units that read a buffer
  for (auto &pass : byPass)
    pass.resize(execution.buffers.size());
  for (size_t i = 0; i < execution.steps.size(); ++i)
    for (int buffer : execution.steps[i].reads)
      byPass[execution.steps[i].backward()][buffer].push_back(steps.units[i]);
  argumentReaders.resize(problem.arguments);
  for (ValueId value = 0; value < problem.arguments; ++value) {
    std::vector<int> units;
    for (OpId reader : readersOf(value, problem, facts))
      units.push_back(executedUnitOf(facts.position[reader]));
    keepDistinct(units);
    Readers &readers = argumentReaders[value];
    // What only the repeated block reads, each copy has for itself.
    if (!units.empty() && fold.repeats(units.front()) && fold.repeats(units.back()))
      readers.copies = fold.copies;
    readers.units = wholeReaders(units, readers.copies);
    const int buffer = execution.bufferOf(value);
    readers.forward = wholeReaders(byPass[0][buffer], readers.copies);
    readers.backward = wholeReaders(byPass[1][buffer], readers.copies);
    if (exchanging && !units.empty())
      readers.block = blockOfUnit[units.front()];
  }
}

} // namespace dtc::plan
