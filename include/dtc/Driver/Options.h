// Everything a user can ask of dtc, as plain data: what the command line, a
// configuration file, the C API and Python fill in.
#pragma once

#include "dtc/Import/ImportedModel.h"
#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Training/Train.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dtc::driver {

enum class Target : uint8_t { CPU, CUDA };
enum class LearningRateSchedule : uint8_t { Constant, Linear, Cosine };

/// Where to stop and print the IR; End runs through.
enum class Phase : uint8_t { Import, Train, Plan, Partition, Schedule, Lower, End };

struct LearningRate {
  double lr = 1e-3, minLr = 0;
  LearningRateSchedule schedule = LearningRateSchedule::Constant;
  int64_t warmupSteps = 0, totalSteps = 0;
};

struct Options {
  std::string model;
  std::string modelName;       ///< what the user calls it, where that isn't the file's path
  std::set<std::string> given; ///< flags that the user typed or configured: "--loss"
  std::map<std::string, std::string> configured; ///< where --config gives a flag: "train.yaml:3"
  std::string output;
  Target target = Target::CPU;
  int64_t devices = 1;
  std::string cluster;          ///< built-in name or YAML file; empty: the target's default
  import::ImportOptions import; ///< the path is filled in by the driver
  std::string loss;             ///< as given: cross_entropy, mse, output:NAME, none
  training::TrainOptions train;
  LearningRate learningRate;
  std::optional<int64_t> globalBatch, microBatch;
  std::string plan = "auto";  ///< SPEC or FILE.yaml
  int64_t threadsPerRank = 0; ///< 0: this machine's cores / ranks, at least 1
  std::vector<std::string> architectures; ///< GPUs to make code for ahead; none: the usual
  std::string weights;        ///< safetensors file or folder
  bool init = false, embedWeights = false;
  std::string data;                 ///< samples that a run takes where it is given none
  std::vector<std::string> compare; ///< two of what --plan takes; or none
  bool explain = false;
  std::string explainName; ///< a tensor or node; empty: of the plan as a whole
  bool onlyPlan = false; ///< any plan will do, also one that can't be compiled yet
  bool keepsPlan = false; ///< the plan may be saved later, as by --save-plan
  std::string savePlan;
  std::string program;                  ///< --for: a preset of the planner
  std::optional<double> memoryHeadroom; ///< the share of each device that is kept free
  std::string saveSettings;             ///< file for the program's settings
  std::string planFrom;                 ///< settings to predict: a file, or arguments
  plan::Spec readSpec;                  ///< what they say
  std::string readFrom;                 ///< what messages call them; empty: nothing was read
  std::string trace;  ///< file for the simulated step
  std::string report; ///< file for the page about the plan
  /// Compare all ranks with one, by the interpreter, or fail. Without a value an artifact's plan is
  /// compared on a twin where that takes seconds.
  std::optional<bool> verify;
  Phase until = Phase::End; ///< --emit
  bool json = false;
};

/// Whether --plan or --compare names a file rather than a SPEC.
inline bool isPlanFile(const std::string &plan) {
  return plan.ends_with(".yaml") || plan.ends_with(".yml");
}

} // namespace dtc::driver
