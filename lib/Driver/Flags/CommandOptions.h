// What the commands beside `compile` and `plan` can be asked, as plain data (dtc/Driver/Options.h
// has those two).
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Plan/Plan/Quantize.h"

namespace dtc::driver {

struct EstimateOptions {
  Options base; ///< model, cluster (empty: every built-in device), loss, shapes
  std::vector<std::pair<std::string, double>> memories; ///< of other devices: as given, bytes
  int64_t gpus = 0;                                     ///< what so many hold; 0: how few will do
  int64_t loraRank = 16;                                ///< 0: without
  int64_t microBatch = 1;                               ///< samples of a device at a time
  bool narrowGradients = true;                          ///< bf16, not fp32
  /// Of weights that don't train: the model under adapters, and for inference.
  plan::Quantization quantization = plan::Quantization::None;
  bool json = false;
};

struct InspectOptions {
  std::string artifact;
  bool json = false;
  std::string compare; ///< the profile of a run; empty: none
};

struct CalibrateOptions {
  std::string output;
  std::string target = "cpu";
};

} // namespace dtc::driver
