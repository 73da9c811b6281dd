#include "Shortage.h"

namespace dtc::plan {

static std::string megabytes(double bytes) {
  return std::to_string(static_cast<int64_t>(bytes / 1e6 + 0.5)) + " MB";
}

std::string shortage(const SearchResult &closest) {
  const Prediction &predicted = closest.predicted;
  const MemoryUse &memory = predicted.memory;
  size_t worst = 0;
  auto filled = [&](size_t stage) {
    return double(predicted.stages[stage].peakMemory) / predicted.stages[stage].memoryCapacity;
  };
  for (size_t i = 0; i < predicted.stages.size(); ++i)
    if (filled(i) > filled(worst))
      worst = i;
  std::string where =
      predicted.stages.size() > 1 ? " on stage " + std::to_string(worst) : std::string();
  std::string reserved =
      memory.reserved > 0 ? ", reserved " + megabytes(double(memory.reserved)) : std::string();
  if (memory.cached > 0)
    reserved += ", cached " + megabytes(double(memory.cached));
  double missing = double(memory.total()) - predicted.memoryCapacity;
  return kNoPlanFits + summary(closest.plan.degrees) + " needs " +
         megabytes(double(memory.total())) + " a rank" + where + " (parameters " +
         megabytes(double(memory.parameters)) + ", gradients " +
         megabytes(double(memory.gradients)) + ", optimizer " +
         megabytes(double(memory.optimizer)) + ", activations " +
         megabytes(double(memory.activations)) + reserved + "), there are " +
         megabytes(predicted.memoryCapacity) + ": " + megabytes(missing) + " short";
}

std::vector<std::pair<std::string, Spec>> eachKeyLess(const Spec &spec) {
  std::vector<std::pair<std::string, Spec>> result;
  auto add = [&](const std::string &key, auto Spec::*field) {
    if (!(spec.*field))
      return;
    Spec without = spec;
    (without.*field).reset();
    result.emplace_back(key, without);
  };
  // What costs least to change comes first.
  add("zero", &Spec::zero);
  if (spec.groups.empty())
    add("micro_batch", &Spec::microBatch);
  add("recompute", &Spec::recompute);
  add("schedule", &Spec::schedule);
  add("chunks", &Spec::chunks);
  add("sp", &Spec::sp);
  add("zero_group", &Spec::zeroGroup);
  add("offload", &Spec::offload);
  add("order", &Spec::order);
  if (!spec.groups.empty()) {
    Spec without = spec;
    without.groups.clear();
    without.dp = without.tp = without.pp = without.microBatch = std::nullopt;
    result.emplace_back(kGroupsKey, without);
    return result;
  }
  for (auto [key, field] : {std::pair("dp", &Spec::dp), {"tp", &Spec::tp}, {"pp", &Spec::pp},
                            {"cp", &Spec::cp}, {"ep", &Spec::ep}})
    add(key, field);
  return result;
}

/// Degrees and settings that no phase carries out yet, or no planner chooses.
std::string unsupportedSpec(const Problem &problem, const SearchOptions &options) {
  std::vector<std::string> list = unimplemented(problem, options.spec);
  return options.executable && !list.empty() ? "plan: " + list.front() : "";
}

} // namespace dtc::plan
