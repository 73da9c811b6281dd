// The program that is to run the plan, on the command line.
#include "CommandLine.h"

#include "dtc/Plan/Plan/Preset.h"

namespace dtc::driver {

using plan::Error;

void declareProgramFlags(CLI::App &command, RawOptions &raw) {
  Options &o = raw.options;
  shows(command.add_option("--for", o.program,
                           "the program that will run it: megatron-lm, torchtitan, ..."),
        "dtc's own");
  shows(command.add_option("--memory-headroom", raw.memoryHeadroom,
                           "share of each device to keep free: 5%"),
        "with --for what its predictions ask for, else 0%");
  command.add_option("--save-settings", o.saveSettings, "write the settings of --for");
  command.add_option("--plan-from", o.planFrom,
                     "predict settings of --for: a file, or arguments in quotes");
}

/// "5%", "0.05".
static std::optional<Error> resolveHeadroom(const RawOptions &raw, Options &options) {
  if (raw.memoryHeadroom.empty())
    return std::nullopt;
  const bool isPercent = raw.memoryHeadroom.ends_with("%");
  auto share = toDouble(raw.memoryHeadroom.substr(0, raw.memoryHeadroom.size() - isPercent));
  if (share && isPercent)
    *share /= 100;
  if (!share || *share < 0 || *share >= 1)
    return usage("--memory-headroom: expected a share below 100%, got '" + raw.memoryHeadroom +
                 "'");
  options.memoryHeadroom = *share;
  return std::nullopt;
}

/// --for and what needs it.
std::optional<Error> resolveProgram(const CLI::App &command, const RawOptions &raw,
                                    Options &options) {
  if (auto error = resolveHeadroom(raw, options))
    return error;
  if (options.program.empty()) {
    for (const char *flag : {"--save-settings", "--plan-from"})
      if (command.get_option_no_throw(flag) && command.count(flag))
        return usage(std::string(flag) + " needs --for, which says of which program");
    return std::nullopt;
  }
  if (auto preset = plan::findPreset(options.program); !preset)
    return usage("--for: " + preset.error().message);
  if (options.target != Target::CUDA)
    return usage("--for plans GPUs: --gpus N or a --cluster of GPUs is missing");
  if (!options.compare.empty())
    return usage("--for and --compare exclude each other");
  if (!options.planFrom.empty() && options.plan.ends_with(".yaml"))
    return usage("--plan-from and a plan file exclude each other");
  return std::nullopt;
}

} // namespace dtc::driver
