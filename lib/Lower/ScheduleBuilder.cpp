#include "dtc/Lower/ScheduleBuilder.h"

#include <algorithm>

namespace dtc::lower {

int64_t ScheduleBuilder::find(const std::string &function) const {
  for (size_t i = 0; i < functions.size(); ++i)
    if (functions[i].name == function)
      return static_cast<int64_t>(i);
  return -1;
}

bool ScheduleBuilder::call(const std::string &function, uint32_t microbatch, uint32_t slot) {
  int64_t index = find(function);
  if (index < 0)
    return false;
  calls.push_back({static_cast<uint32_t>(index), microbatch, slot});
  return true;
}

std::string ScheduleBuilder::verify() const {
  std::vector<std::vector<int64_t>> counts;
  for (const StepFunction &function : functions)
    counts.emplace_back(function.cadence == Cadence::OncePerStep ? 1 : numMicrobatches, 0);
  for (const Call &call : calls) {
    if (call.microbatch >= counts[call.function].size())
      return "microbatch out of range in a call of " + functions[call.function].name + ": " +
             std::to_string(call.microbatch);
    ++counts[call.function][call.microbatch];
  }
  for (size_t i = 0; i < functions.size(); ++i)
    for (int64_t count : counts[i])
      if (count != 1)
        return functions[i].name + " is called a wrong number of times: " + std::to_string(count);
  return "";
}

void buildAccumulation(ScheduleBuilder &builder) {
  const std::vector<StepFunction> &functions = builder.getFunctions();
  auto perMicrobatch = [](const StepFunction &function) {
    return function.cadence == Cadence::OncePerMicrobatch;
  };
  auto first = std::find_if(functions.begin(), functions.end(), perMicrobatch);
  for (auto it = functions.begin(); it != first; ++it)
    builder.call(it->name);
  for (uint32_t microbatch = 0; microbatch < builder.getNumMicrobatches(); ++microbatch)
    for (auto it = first; it != functions.end(); ++it)
      if (perMicrobatch(*it))
        builder.call(it->name, microbatch);
  for (auto it = first; it != functions.end(); ++it)
    if (!perMicrobatch(*it))
      builder.call(it->name);
}

} // namespace dtc::lower
