// A run's profile (`dtc-run --profile`), summed up and laid over what was predicted.
#pragma once

#include "dtc-rt/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace dtc::driver {

/// Means of a step and rank, without the first step where there are more:
///
///   {"steps", "step_time_s", "computing_s", "exposed_communication_s",
///    "overlapped_communication_s", "waiting_s", "kinds": {"matmul": {"calls", "seconds"}, ...}}
///
/// Communication is overlapped while its rank computes.
rt::Result<nlohmann::ordered_json> summarizeProfile(const std::string &path);

/// What is said of the run, beside what the artifact's plan predicts.
std::string comparisonText(const nlohmann::ordered_json &predicted,
                           const nlohmann::ordered_json &measured);

} // namespace dtc::driver
