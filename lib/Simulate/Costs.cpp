#include "Passes.h"

#include <algorithm>
#include <cmath>

namespace dtc::simulate {

/// At most about 30 years or 1e18 bytes: sums of them stay finite.
static bool isFigure(double value) { return value >= 0 && value <= 1e18; }

static bool isWork(const Work &work) {
  return isFigure(work.compute) && isFigure(work.blocking) && isFigure(work.overlapped);
}

static std::string checkStage(const StageCost &stage) {
  for (const Work &work : {stage.forward, stage.recompute, stage.inputGrad, stage.weightGrad})
    if (!isWork(work))
      return "seconds of work must be finite and not negative";
  for (double bytes :
       {stage.savedBytes, stage.keptBytes, stage.forwardTransient, stage.backwardTransient,
        stage.weightGradTransient, stage.waitingBytes, stage.temporaries.forward,
        stage.temporaries.backward, stage.temporaries.inputGrad, stage.temporaries.weightGrad})
    if (!isFigure(bytes))
      return "bytes must be finite and not negative";
  if (!isFigure(stage.reductionSeconds))
    return "seconds of the gradient reduction must be finite and not negative";
  if (!(stage.reductionOverlap >= 0 && stage.reductionOverlap <= 1))
    return "the overlapping share of the gradient reduction must lie between 0 and 1";
  return "";
}

static std::string checkBoundary(const Boundary &boundary) {
  if (!isFigure(boundary.forwardBytes) || !isFigure(boundary.backwardBytes) ||
      !isFigure(boundary.slotBytes))
    return "bytes must be finite and not negative";
  if (!isFigure(boundary.latency))
    return "latency must be finite and not negative";
  if (boundary.level < 0)
    return "level must not be negative";
  double bytes = std::max(boundary.forwardBytes, boundary.backwardBytes);
  bool isRate = boundary.bandwidth >= 0 && std::isfinite(boundary.bandwidth);
  if (!isRate || (bytes > 0 && !isFigure(bytes / boundary.bandwidth)))
    return "bandwidth must be finite and positive where there are bytes to send";
  return "";
}

static std::string checkRank(const RankCost &rank) {
  if (!isWork(rank.prologue) || !isWork(rank.update))
    return "seconds of work must be finite and not negative";
  if (!isFigure(rank.staticBytes) || !isFigure(rank.updateTransient))
    return "bytes must be finite and not negative";
  return "";
}

template <typename T>
static std::string checkAll(const std::vector<T> &items, int64_t count, const char *name,
                            std::string (*checkOne)(const T &)) {
  if (int64_t(items.size()) != count)
    return "there must be " + std::to_string(count) + " costs of a " + name + ", got " +
           std::to_string(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    if (std::string error = checkOne(items[i]); !error.empty())
      return std::string(name) + " " + std::to_string(i) + ": " + error;
  return "";
}

std::string checkCosts(const schedule::ScheduleShape &shape, const Costs &costs) {
  std::string error = checkAll(costs.stages, shape.stages(), "stage", checkStage);
  if (error.empty())
    error = checkAll(costs.boundaries, shape.stages() - 1, "boundary", checkBoundary);
  if (error.empty())
    error = checkAll(costs.ranks, shape.ranks, "rank", checkRank);
  auto isFactor = [](double value) { return value >= 1 && value <= 1e3; };
  if (error.empty() &&
      !(isFactor(costs.slowdown.compute) && isFactor(costs.slowdown.communication)))
    error = "slow-downs must lie between 1 and 1000";
  return error;
}

std::string check(const schedule::ScheduleShape &shape, const Costs &costs) {
  std::string error = schedule::unsupported(shape);
  return error.empty() ? checkCosts(shape, costs) : error;
}

} // namespace dtc::simulate
