// Why there is no plan, or a slow one, in words.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::report {

/// "64 of the 65 are faster: ...; a global batch of 260 divides among 65", or "".
std::string adviceText(const plan::Advice &advice, int64_t devices);

/// One line: "no plan fits: dp=8 tp=1 ... needs 93.1 GiB a rank (...), there are 73.5 GiB: 19.6 GiB
/// short; with zero=3 a plan fits".
std::string failureText(const plan::SearchFailure &failure);

/// Where more stages are planned than the model has parts, so that some have reshapes alone; or "".
std::string idleStagesText(const plan::Problem &problem, const plan::SearchResult &search);

} // namespace dtc::report
