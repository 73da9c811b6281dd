// What kind of plan a file has.
#pragma once

#include "dtc/Plan/Plan/Result.h"

#include <string>

namespace dtc::plan {

/// Whether a plan file has nothing but its part `plan`, its degrees: the rest is planned anew.
Result<bool> hasDegreesAlone(const std::string &text, const std::string &file);

} // namespace dtc::plan
