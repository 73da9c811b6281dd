#include "dtc/Report/PlanTrace.h"

#include "dtc/Simulate/Trace.h"

#include <sstream>

namespace dtc::report {

/// All of the numbers: "3", "0-7", "0, 4, 8".
static std::string listText(const std::vector<int64_t> &numbers) {
  if (numbers.size() > 1 && numbers.back() - numbers.front() + 1 == int64_t(numbers.size()))
    return std::to_string(numbers.front()) + "-" + std::to_string(numbers.back());
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

/// "pipeline rank 0: stages 0, 2 (layers 0-3, 8-11), devices 0-7"; a rank of the
/// pipeline holds every ranks-th stage.
static std::string rankName(const std::vector<plan::StagePrediction> &stages, size_t rank,
                            size_t ranks) {
  std::vector<int64_t> held;
  std::string layers;
  for (size_t stage = rank; stage < stages.size(); stage += ranks) {
    held.push_back(int64_t(stage));
    const plan::StagePrediction &entry = stages[stage];
    if (entry.firstLayer < 0)
      continue;
    layers += (layers.empty() ? "" : ", ") + std::to_string(entry.firstLayer);
    if (entry.lastLayer > entry.firstLayer)
      layers += "-" + std::to_string(entry.lastLayer);
  }
  return "pipeline rank " + std::to_string(rank) + (held.size() > 1 ? ": stages " : ": stage ") +
         listText(held) + (layers.empty() ? "" : " (layers " + layers + ")") + ", devices " +
         listText(stages[rank].devices);
}

plan::Result<std::string> planTrace(const PlanFacts &facts) {
  const plan::Plan &plan = facts.search.plan;
  simulate::Timeline timeline =
      plan::simulateStep(facts.problem, plan, facts.cluster, facts.workspace);
  if (!timeline.error.empty())
    return plan::Error{"--trace: " + timeline.error, ErrorCategory::Usage};
  simulate::TraceNames names;
  names.title = facts.problem.model + ": " + plan::summary(plan.degrees);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    names.ranks.push_back(rankName(facts.search.predicted.stages, rank, timeline.ranks.size()));
  std::ostringstream text;
  simulate::writeTrace(text, timeline, names);
  return text.str();
}

} // namespace dtc::report
