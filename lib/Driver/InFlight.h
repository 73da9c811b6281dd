// What an artifact's ranks exchange while they compute.
#pragma once

#include "dtc-rt/Program/ProgramView.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace dtc::driver {

/// By kind, as {"all_gather": {"calls": 6, "bytes": 4096}}: calls of a step and rank between whose
/// start and wait something is computed, and the bytes that they bring together. Of the role that
/// exchanges the most bytes so.
nlohmann::ordered_json inFlight(const std::vector<rt::ProgramView> &programs);

} // namespace dtc::driver
