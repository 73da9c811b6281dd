// What kind of plan a file has.
#pragma once

#include "dtc/Plan/Plan/Result.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtc::plan {

/// Whether a plan file has nothing but its part `plan`, its degrees: the rest is planned anew.
Result<bool> hasDegreesAlone(const std::string &text, const std::string &file);

/// Names of parameters, each with a dimension that the layouts of a plan file divide.
Result<std::vector<std::pair<std::string, int64_t>>> dividedDimensions(const std::string &text,
                                                                       const std::string &file);

} // namespace dtc::plan
