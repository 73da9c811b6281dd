// Why there is no plan, in words.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::report {

/// One line: "no plan fits: dp=8 tp=1 ... needs 93.1 GiB a rank (...), there are 73.5 GiB: 19.6 GiB
/// short; with zero=3 a plan fits".
std::string failureText(const plan::SearchFailure &failure);

} // namespace dtc::report
