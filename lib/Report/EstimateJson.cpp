#include "dtc/Report/Json.h"

namespace dtc::report {

using nlohmann::ordered_json;

static ordered_json fitJson(const plan::SizedPlan &fit) {
  ordered_json memory = memoryJson(fit.predicted.memory);
  memory["keys_and_values"] = fit.cacheBytes;
  return {{"plan", degreesJson(fit.degrees)},
          {"memory", memory},
          {"peak_memory_bytes", fit.total()},
          {"capacity_bytes", fit.predicted.memoryCapacity},
          {"fits", fit.fits()}};
}

static ordered_json jobJson(const JobNeed &job) {
  ordered_json devices = ordered_json::array(), configurations = ordered_json::array();
  for (const DeviceNeed &need : job.devices) {
    ordered_json entry = {{"device", need.device}, {"memory_bytes", need.memoryBytes}};
    entry["count"] = need.fit ? ordered_json(need.fit->degrees.devices()) : ordered_json(nullptr);
    if (need.fit)
      entry.update(fitJson(*need.fit));
    else
      entry["reason"] = need.reason;
    devices.push_back(entry);
  }
  for (const plan::SizedPlan &fit : job.configurations)
    configurations.push_back(fitJson(fit));
  return {{"job", job.name},
          {"assumptions", job.assumptions},
          {"quantized_parameters", job.quantized},
          {"devices", devices},
          {"configurations",
           {{"device",
             job.configuredOn.empty() ? ordered_json(nullptr) : ordered_json(job.configuredOn)},
            {"plans", configurations}}}};
}

ordered_json estimateJson(const Estimate &estimate) {
  ordered_json jobs = ordered_json::array();
  for (const JobNeed &job : estimate.jobs)
    jobs.push_back(jobJson(job));
  return {{"model", {{"parameters", estimate.parameters}, {"nodes", estimate.nodes}}},
          {"tokens_per_sample", estimate.tokensPerSample ? ordered_json(estimate.tokensPerSample)
                                                         : ordered_json(nullptr)},
          {"jobs", jobs}};
}

} // namespace dtc::report
