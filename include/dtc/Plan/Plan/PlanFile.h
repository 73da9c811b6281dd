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
/// How many samples of a step a plan file was made with beside those that are read.
Result<int64_t> paddedSamples(const std::string &text, const std::string &file);
/// The line that refuses a plan file for another global batch than it `was` made for.
Error otherBatch(const std::string &text, const std::string &file, int64_t was, int64_t asked);
/// The parts of a plan file that say so; "" where there are none.
std::string paddedYaml(const Dimensions &padded, int64_t samples);

} // namespace dtc::plan
