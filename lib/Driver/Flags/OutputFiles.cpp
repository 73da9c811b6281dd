#include "OutputFiles.h"

#include <array>
#include <filesystem>
#include <set>

namespace dtc::driver {

namespace fs = std::filesystem;

static std::array<rt::NamedFile, 5> outputsOf(const Options &options) {
  return {{{"-o", options.output},
           {"--save-plan", options.savePlan},
           {"--report", options.report},
           {"--save-settings", options.saveSettings},
           {"--trace", options.trace}}};
}

rt::Status checkOutputs(const Options &options, std::vector<rt::NamedFile> inputs) {
  inputs.insert(inputs.end(), {{"the model", options.model},
                               {"--weights", options.weights},
                               {"--data", options.data},
                               {"--cluster", options.cluster},
                               {"--plan", isPlanFile(options.plan) ? options.plan : ""},
                               {"--plan-from", options.planFrom}});
  std::error_code error;
  for (fs::directory_iterator entry(options.weights, error), end; !error && entry != end;
       entry.increment(error))
    inputs.push_back({"a file of --weights", entry->path().string()});
  const auto outputs = outputsOf(options);
  if (rt::Status status = rt::checkOutputConflicts(inputs, outputs); !status.isOk())
    return status;
  return rt::checkOutputFolders(outputs);
}

rt::Status checkOutputs(const Options &options, const WeightStore &weights) {
  std::set<std::string> files;
  for (const auto &[name, weight] : weights)
    files.insert(weight.file);
  std::vector<rt::NamedFile> inputs;
  for (const std::string &file : files)
    inputs.push_back({"the model's external data", file});
  return rt::checkOutputConflicts(inputs, outputsOf(options));
}

} // namespace dtc::driver
