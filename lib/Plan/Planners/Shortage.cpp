#include "Shortage.h"

namespace dtc::plan {

static std::string megabytes(double bytes) {
  return std::to_string(static_cast<int64_t>(bytes / 1e6 + 0.5)) + " MB";
}

std::string shortage(const SearchResult &closest) {
  const Prediction &predicted = closest.predicted;
  const MemoryUse &memory = predicted.memory;
  size_t worst = 0;
  for (size_t i = 0; i < predicted.stages.size(); ++i)
    if (predicted.stages[i].peakMemory > predicted.stages[worst].peakMemory)
      worst = i;
  std::string where =
      predicted.stages.size() > 1 ? " on stage " + std::to_string(worst) : std::string();
  std::string reserved =
      memory.reserved > 0 ? ", reserved " + megabytes(double(memory.reserved)) : std::string();
  double missing = double(memory.total()) - predicted.memoryCapacity;
  return "no plan fits: " + summary(closest.plan.degrees) + " needs " +
         megabytes(double(memory.total())) + " a rank" + where + " (parameters " +
         megabytes(double(memory.parameters)) + ", gradients " +
         megabytes(double(memory.gradients)) + ", optimizer " +
         megabytes(double(memory.optimizer)) + ", activations " +
         megabytes(double(memory.activations)) + reserved + "), there are " +
         megabytes(predicted.memoryCapacity) + ": " + megabytes(missing) + " short";
}

/// Degrees and settings that no phase carries out yet, or no planner chooses.
std::string unsupportedSpec(const SearchOptions &options) {
  if (options.spec.ep.value_or(1) > 1)
    return "plan: not implemented yet: ep=" + std::to_string(*options.spec.ep);
  std::vector<std::string> list = unimplemented(options.spec);
  return options.executable && !list.empty() ? "plan: " + list.front() : "";
}

} // namespace dtc::plan
