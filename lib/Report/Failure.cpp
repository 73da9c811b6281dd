#include "dtc/Report/Failure.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <cstdio>

namespace dtc::report {

using plan::MemoryUse;
using plan::Prediction;

/// In the unit of the capacity, so that all figures add up as they are read.
static std::string sizeText(double bytes, double capacity) {
  constexpr double gib = 1024.0 * 1024 * 1024, mib = 1024.0 * 1024;
  char text[64];
  if (capacity >= gib)
    std::snprintf(text, sizeof(text), "%.1f GiB", bytes / gib);
  else
    std::snprintf(text, sizeof(text), "%.2f MiB", bytes / mib);
  return text;
}

/// " on stage 3": the one whose devices are fullest.
static std::string fullestStage(const Prediction &predicted) {
  if (predicted.stages.size() <= 1)
    return "";
  size_t worst = 0;
  auto filled = [&](size_t stage) {
    return double(predicted.stages[stage].peakMemory) / predicted.stages[stage].memoryCapacity;
  };
  for (size_t i = 0; i < predicted.stages.size(); ++i)
    if (filled(i) > filled(worst))
      worst = i;
  return " on stage " + std::to_string(worst);
}

/// Of a device's memory.
static std::string ofDevice(const Prediction &predicted) {
  const MemoryUse &memory = predicted.memory;
  auto size = [&](double bytes) { return sizeText(bytes, predicted.memoryCapacity); };
  std::string reserved =
      memory.reserved > 0 ? ", reserved " + size(double(memory.reserved)) : std::string();
  if (memory.cached > 0)
    reserved += ", cached " + size(double(memory.cached));
  return size(double(memory.total())) + " a rank" + fullestStage(predicted) + " (parameters " +
         size(double(memory.parameters)) + ", gradients " + size(double(memory.gradients)) +
         ", optimizer " + size(double(memory.optimizer)) + ", activations " +
         size(double(memory.activations)) + reserved + "), there are " +
         size(predicted.memoryCapacity) + ": " + size(predicted.shortBytes()) + " short";
}

/// Of a host's.
static std::string ofHost(const plan::HostUse &host) {
  auto size = [&](double bytes) { return sizeText(bytes, host.capacity); };
  return size(host.bytes) + " of host memory in node " + std::to_string(host.node) +
         " for the optimizer states of " + std::to_string(host.ranks) +
         (host.ranks == 1 ? " rank" : " ranks") + ", there are " + size(host.capacity) + ": " +
         size(host.shortBytes()) + " short";
}

static std::string neededText(const Prediction &predicted) {
  if (predicted.host.shortBytes() <= 0)
    return ofDevice(predicted);
  if (predicted.shortBytes() <= 0)
    return ofHost(predicted.host);
  return ofDevice(predicted) + "; and " + ofHost(predicted.host);
}

/// "; with tp=8 a plan fits", or "".
static std::string remedyText(const plan::Remedy &remedy) {
  if (remedy.setting)
    return "; with " + settingText(*remedy.setting, *remedy.plan) + " a plan fits";
  if (remedy.plan)
    return "; with nothing pinned a plan fits: " + summary(*remedy.plan);
  if (remedy.devices == 0)
    return "";
  return "; on " + std::to_string(remedy.devices) + " devices" +
         (remedy.unpins ? ", with nothing pinned," : "") + " a plan fits";
}

std::string adviceText(const plan::Advice &advice, int64_t devices) {
  std::string text;
  if (advice.fewer) {
    const plan::Degrees &degrees = advice.fewer->degrees;
    text = std::to_string(degrees.devices()) + " of the " + std::to_string(devices) +
           (advice.isOnlyWay ? " have a plan: " : " are faster: ") + degreesText(degrees) +
           ", step time " + formatSeconds(advice.fewer->predicted.stepSeconds);
  }
  if (advice.globalBatch > 0)
    text += (text.empty() ? "" : "; ") + ("--global-batch " + std::to_string(advice.globalBatch)) +
            " divides among " + std::to_string(devices);
  return text;
}

std::string failureText(const plan::SearchFailure &failure) {
  if (!failure.closestPlan) {
    std::string advice = adviceText(failure.advice, failure.devices);
    return failure.message + (advice.empty() ? "" : "; " + advice);
  }
  const plan::ClosestPlan &closest = *failure.closestPlan;
  return failure.message + ": " + summary(closest.degrees) + " needs " +
         neededText(closest.predicted) + remedyText(closest.remedy);
}

/// A bias that is a stage of its own takes a kernel, though none beside its product.
static bool isCutFromProducts(const plan::Problem &problem, const plan::Stage &stage) {
  return std::any_of(problem.ops.begin() + stage.firstOp, problem.ops.begin() + stage.lastOp + 1,
                     [](const plan::Op &op) { return op.inProduct; });
}

std::string idleStagesText(const plan::Problem &problem, const plan::SearchResult &search) {
  constexpr double kLeast = 1e-3; // of the mean of all stages
  std::vector<std::string> idle;
  const auto &stages = search.predicted.stages;
  auto seconds = [](const plan::StagePrediction &stage) {
    return stage.forwardSeconds + stage.backwardSeconds;
  };
  double sum = 0;
  for (const plan::StagePrediction &stage : stages)
    sum += seconds(stage);
  for (size_t i = 0; i < stages.size(); ++i)
    if (seconds(stages[i]) * double(stages.size()) < kLeast * sum &&
        !isCutFromProducts(problem, search.plan.stages[i]))
      idle.push_back(std::to_string(i));
  if (idle.empty())
    return "";
  return std::to_string(idle.size()) + " of " + std::to_string(stages.size()) +
         " stages would have nothing to do, the first is stage " + idle.front() +
         ", counted from 0; ask for fewer (pp, chunks), or leave their number open";
}

} // namespace dtc::report
