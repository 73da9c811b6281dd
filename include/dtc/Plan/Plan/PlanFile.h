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

/// Names of parameters, each with one of its dimensions.
using Dimensions = std::vector<std::pair<std::string, int64_t>>;

/// The dimensions that a plan file was made with more of than files have.
Result<Dimensions> paddedDimensions(const std::string &text, const std::string &file);
/// The part of a plan file that says so; "" where there are none.
std::string paddedYaml(const Dimensions &padded);

} // namespace dtc::plan
