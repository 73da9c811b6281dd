// `dtc estimate`: how many devices a model needs for what, and what they hold.
#pragma once

#include "dtc/Plan/Search/ClusterSize.h"

namespace dtc::report {

/// One device type's answer.
struct DeviceNeed {
  std::string device;
  double memoryBytes = 0;
  std::optional<plan::SizedPlan> fit; ///< on the fewest of them; nothing: `reason`
  std::string reason;
};

/// What is done with the model: trained in full, adapted, or run.
struct JobNeed {
  std::string name;        ///< "training"
  std::string assumptions; ///< a sentence without its full stop
  int64_t quantized = 0;   ///< elements of weights that are kept in integers
  std::vector<DeviceNeed> devices;
  /// Other ways on as many of this device; empty: none.
  std::string configuredOn;
  std::vector<plan::SizedPlan> configurations;
};

struct Estimate {
  std::string model;
  int64_t parameters = 0, nodes = 0;
  int64_t tokensPerSample = 0; ///< 0: not a token model
  int64_t given = 0;           ///< devices that were given; 0: as few as will do
  std::vector<JobNeed> jobs;
};

std::string estimateText(const Estimate &estimate);

} // namespace dtc::report
