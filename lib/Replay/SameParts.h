// Whether what a kernel is given of several tensors in parts is the same part of each.
//
// Copies bring parts of a parameter and of its states together, and take what a kernel makes of
// them back to parts of others. Where each part lies is known of the copies alone:
//
//   Copy   %a <- the second half of %p      Copy   %b <- the second half of %m
//   Launch %c <- %a, %b
//   Copy   the second half of %q <- %c      the first half would be another part than %a is
#pragma once

#include "dtc-rt/Program_generated.h"

#include <string>

namespace dtc::replay {

/// What is wrong with the function's parts, or empty.
std::string checkSameParts(const rt::fbs::FunctionT &function);

} // namespace dtc::replay
