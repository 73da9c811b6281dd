#include "StepParts.h"

#include <algorithm>

namespace dtc::plan {

double StepParts::exposedSeconds() const {
  double sum = 0;
  for (const auto &[axis, seconds] : exposed)
    sum += seconds;
  return sum;
}

double StepParts::total() const {
  return compute + recompute + update + bubble + exposedSeconds();
}

/// Of all ranks; what sending adds is what isn't there without it.
static double exposedBySending(const SimulatedStep &step) {
  if (step.costs.boundaries.empty())
    return 0;
  simulate::Costs free = step.costs;
  for (simulate::Boundary &boundary : free.boundaries)
    boundary.forwardBytes = boundary.backwardBytes = boundary.latency = 0;
  simulate::Timeline without = simulate::simulate(step.schedule, free);
  double ranks = double(step.costs.ranks.size());
  return ranks * std::max(0.0, step.timeline.exposedSeconds - without.exposedSeconds);
}

static double sum(const std::map<std::string, double> &seconds) {
  double result = 0;
  for (const auto &[axis, each] : seconds)
    result += each;
  return result;
}

StepParts stepParts(const SimulatedStep &step) {
  const simulate::Timeline &timeline = step.timeline;
  double ranks = double(step.costs.ranks.size());
  double times = double(step.schedule.shape.microbatches);
  std::map<std::string, double> exposed = step.inside;
  double rest = ranks * timeline.exposedSeconds - sum(step.inside) - step.tied;
  double sent = std::clamp(exposedBySending(step), 0.0, std::max(0.0, rest));
  if (sent + step.tied > 0)
    exposed["pp"] += sent + step.tied;
  double data = std::max(0.0, rest - sent), all = sum(step.data);
  for (const auto &[axis, seconds] : step.data)
    if (seconds > 0)
      exposed[axis] += data * seconds / all;
  StepParts parts;
  for (const simulate::StageCost &stage : step.costs.stages)
    parts.recompute += times * stage.recompute.compute / ranks;
  for (const simulate::RankCost &rank : step.costs.ranks)
    parts.update += (rank.prologue.compute + rank.update.compute) / ranks;
  parts.bubble = timeline.bubbleFraction * timeline.stepSeconds;
  for (const auto &[axis, seconds] : exposed)
    if (seconds > 0)
      parts.exposed.emplace_back(axis, seconds / ranks);
  parts.compute = std::max(0.0, timeline.stepSeconds - parts.total());
  return parts;
}

} // namespace dtc::plan
