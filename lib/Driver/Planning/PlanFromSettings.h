// `dtc plan --for PROGRAM --plan-from SETTINGS`: what settings of a program come to.
#pragma once

#include "../Phases.h"

#include <iosfwd>

namespace dtc::driver {

/// Predicts the settings, and says what is wrong with them and what would be faster.
Failure planFromSettings(Environment &env, Options options, std::ostream &out);

} // namespace dtc::driver
