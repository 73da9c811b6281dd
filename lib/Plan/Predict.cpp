// What a plan costs, read off its execution.
#include "Execution.h"

#include "dtc/Plan/Search.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

/// Gradients are summed in buckets of at most this size.
static constexpr double kBucketBytes = 25e6;

/// "dp", "tp" or "dp,tp": the degrees whose axes form the group.
static std::string degreesOf(const AxisList &axes, const sharding::Mesh &mesh) {
  std::vector<std::string> names;
  for (sharding::AxisId axis : axes)
    if (std::find(names.begin(), names.end(), mesh.axes[axis].degree) == names.end())
      names.push_back(mesh.axes[axis].degree);
  std::string result;
  for (const std::string &name : names)
    result += (result.empty() ? "" : ",") + name;
  return result;
}

namespace {

class Predictor {
public:
  Predictor(const Problem &problem, const Plan &plan, const Cluster &cluster)
      : problem(problem), plan(plan), facts(problem), model(cluster, plan.degrees.devices()),
        execution(problem, facts, plan, model) {}
  Prediction run();

private:
  void addMicrobatch();
  void addGradientSums();
  void addScalarSums();
  void addUpdate();
  void addMemory();
  void addCollective(StepKind kind, const AxisList &axes, int64_t bytes, int64_t count,
                     double seconds);

  const Problem &problem;
  const Plan &plan;
  ProblemFacts facts;
  CostModel model;
  Execution execution;
  Prediction result;
};

} // namespace

void Predictor::addCollective(StepKind kind, const AxisList &axes, int64_t bytes, int64_t count,
                              double seconds) {
  if (kind == StepKind::Slice || plan.mesh.size(axes) <= 1)
    return;
  std::string axis = degreesOf(axes, plan.mesh);
  result.communicationSeconds += seconds;
  for (CollectiveUse &use : result.collectives)
    if (use.kind == kind && use.axis == axis && use.bytes == bytes) {
      use.count += count;
      use.seconds += seconds;
      return;
    }
  result.collectives.push_back({kind, axis, count, bytes, seconds});
}

void Predictor::addMicrobatch() {
  int64_t times = problem.numMicrobatches;
  for (const ExecutionStep &step : execution.steps) {
    (step.backward ? result.backwardSeconds : result.forwardSeconds) += step.seconds;
    if (step.collective)
      addCollective(*step.collective, step.axes, step.bytes, times, double(times) * step.seconds);
  }
  for (const Op &op : problem.ops)
    result.modelFlops += double(times) * op.flops;
}

/// Gradients that are still pending, in buckets, once a step.
void Predictor::addGradientSums() {
  std::vector<std::pair<AxisList, int64_t>> totals;
  for (const auto &[axes, bytes] : execution.pendingGradients) {
    auto it = std::find_if(totals.begin(), totals.end(),
                           [&axes = axes](const auto &total) { return total.first == axes; });
    if (it == totals.end())
      totals.emplace_back(axes, bytes);
    else
      it->second += bytes;
  }
  for (const auto &[axes, bytes] : totals) {
    auto count = std::max<int64_t>(1, std::llround(std::ceil(double(bytes) / kBucketBytes)));
    int64_t each = (bytes + count - 1) / count;
    double seconds = double(count) * model.collectiveSeconds(StepKind::AllReduce, axes,
                                                             double(each), plan.mesh);
    result.updateSeconds += seconds;
    addCollective(StepKind::AllReduce, axes, each, count, seconds);
  }
}

/// The number of valid targets, and the norm of gradients that are split: one
/// number each.
void Predictor::addScalarSums() {
  constexpr int64_t bytes = 8;
  auto sum = [&](const AxisList &axes) {
    double seconds = model.collectiveSeconds(StepKind::AllReduce, axes, bytes, plan.mesh);
    result.updateSeconds += seconds;
    addCollective(StepKind::AllReduce, axes, bytes, 1, seconds);
  };
  std::vector<AxisList> split;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    if (facts.gradientResult[value] < 0)
      continue;
    AxisList axes;
    for (const AxisList &dim : plan.arguments.at(value).dims)
      axes.insert(axes.end(), dim.begin(), dim.end());
    std::sort(axes.begin(), axes.end());
    if (!axes.empty() && std::find(split.begin(), split.end(), axes) == split.end())
      split.push_back(axes);
  }
  bool counts = std::any_of(problem.values.begin(), problem.values.end(),
                            [](const Value &v) { return v.kind == ValueKind::Target; });
  if (AxisList dp = plan.mesh.ofDegree("dp"); counts && !dp.empty())
    sum(dp);
  for (const AxisList &axes : split)
    sum(axes);
}

void Predictor::addUpdate() {
  double traffic = 0;
  int64_t parameters = 0;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    if (argument.kind != ValueKind::Parameter)
      continue;
    ParameterBytes bytes = parameterBytes(problem, value, plan.arguments.at(value), plan.mesh);
    result.memory.parameters += bytes.parameter;
    result.memory.gradients += bytes.gradient;
    result.memory.optimizer += bytes.states;
    if (argument.trainable && facts.gradientResult[value] >= 0) {
      // The gradient's norm reads it once more.
      traffic += double(bytes.updateTraffic() + bytes.gradient);
      ++parameters;
    }
  }
  result.updateSeconds += model.streamSeconds(traffic) +
                          2 * double(parameters) * model.getCluster().device.launchSeconds;
}

void Predictor::addMemory() {
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    int64_t bytes = localBytes(argument, plan.arguments.at(value), plan.mesh);
    bool perMicrobatch = argument.kind == ValueKind::Input || argument.kind == ValueKind::Target;
    if (argument.kind == ValueKind::Buffer)
      result.memory.parameters += bytes;
    else if (argument.kind != ValueKind::Parameter && argument.kind != ValueKind::Accumulator)
      result.memory.data += bytes * (perMicrobatch ? problem.numMicrobatches : 1);
  }
  result.memory.activations = peakBytes(execution);
  result.memoryCapacity = model.memoryPerRank();
}

Prediction Predictor::run() {
  addMicrobatch();
  addGradientSums();
  addScalarSums();
  addUpdate();
  addMemory();
  result.stepSeconds =
      double(problem.numMicrobatches) * (result.forwardSeconds + result.backwardSeconds) +
      result.updateSeconds;
  return std::move(result);
}

Prediction predict(const Problem &problem, const Plan &plan, const Cluster &cluster) {
  return Predictor(problem, plan, cluster).run();
}

} // namespace dtc::plan
