// A plan in the settings of the program that runs it, and such settings as a plan.
//
// dp=8 tp=4 zero=1 of 64 samples a step are, for Megatron-LM,
//
//   --tensor-model-parallel-size 4   # Tensor parallel: ...
//   --use-distributed-optimizer      # ZeRO-1: ...
//   --micro-batch-size 2             # ...
//   --global-batch-size 64
//
// Between both stand facts, words by name: {"tp", "4"}, {"zero", "1"}, {"data_ranks", "8"}. Some
// are settings of the plan, others follow from these.
#pragma once

#include "dtc/Plan/Plan/Preset.h"
#include "dtc/Plan/Plan/Settings.h"

namespace dtc::plan {

using Facts = std::map<std::string, std::string>;

/// What facts come from beside the plan.
struct RunFacts {
  int64_t devices = 1, devicesPerNode = 1;
  int64_t layers = 0, sequence = 0; ///< 0: not known
  std::string precision;
};

Facts factsOf(const Degrees &degrees, const RunFacts &run);

//===-- writing -----------------------------------------------------------===//

struct SaidSetting {
  std::string key, value; ///< no value: a flag alone
  std::string program;    ///< instead of a key: what the user's program says
  std::string about;      ///< setting of the plan
  std::string comment;
};

/// The settings that say the plan, with what each means. `meanings` explains settings of a plan.
std::vector<SaidSetting> toolSettings(const Preset &preset, const Facts &facts,
                                      const std::map<std::string, std::string> &meanings);

/// In the program's form, with a comment for each. JSON, which has none, has them after it where
/// `isFile` is false, and otherwise nowhere.
std::string settingsText(const Preset &preset, const Facts &facts,
                         const std::vector<SaidSetting> &settings, bool isFile);

//===-- reading -----------------------------------------------------------===//

struct ReadSettings {
  Spec spec;
  std::optional<int64_t> globalBatch;
  std::optional<std::string> precision; ///< "bf16"
  Facts given;                          ///< what was said, by fact
  std::vector<std::string> wrong;       ///< contradictions, one line each
  std::vector<std::string> unread;      ///< keys that say nothing of the plan
};

/// Settings of `name`, a file or "the arguments". What can't be read is refused.
Result<ReadSettings> readToolSettings(const Preset &preset, const std::string &text,
                                      const std::string &name, const RunFacts &run);

} // namespace dtc::plan
