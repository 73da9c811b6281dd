// The commands of dtc, each on checked options.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Driver/Outcome.h"
#include "dtc/Plan/Plan/Quantize.h"

#include <iosfwd>

namespace dtc::driver {

/// Where a command's answer goes, and what comes after it.
struct Answer {
  std::ostream &out;
  bool processEnds; ///< then what is large isn't taken apart
};

/// Compiles a model into an artifact and prints the plan it chose.
Failure compile(const Options &options, const Answer &answer);

/// Plans and prints; needs neither weights nor a toolchain.
Failure planOnly(Options options, const Answer &answer);

struct EstimateOptions {
  Options base; ///< model, cluster (empty: every built-in device), loss, shapes
  std::vector<std::pair<std::string, double>> memories; ///< of other devices: as given, bytes
  int64_t gpus = 0;            ///< what so many hold; 0: how few will do
  int64_t loraRank = 16;       ///< 0: without
  int64_t microBatch = 1;      ///< samples of a device at a time
  bool narrowGradients = true; ///< bf16, not fp32
  /// Of weights that don't train: the model under adapters, and for inference.
  plan::Quantization quantization = plan::Quantization::None;
  bool json = false;
};
/// Prints how many devices of each type a model needs.
Failure estimate(const EstimateOptions &options, const Answer &answer);

struct InspectOptions {
  std::string artifact;
  bool json = false;
  std::string compare; ///< the profile of a run; empty: none
};
Failure inspect(const InspectOptions &options, const Answer &answer);

struct CalibrateOptions {
  std::string output;
  std::string target = "cpu";
};
/// Measures this machine, or its GPUs, and writes it as a cluster file.
Failure calibrate(const CalibrateOptions &options, const Answer &answer);

} // namespace dtc::driver
