// Errors about flags that a configuration gives.
#pragma once

#include "dtc/Driver/Options.h"

namespace dtc::driver {

/// Wrong usage of a flag of --config, with the place of that flag: an input that is refused. Which
/// flag is meant is read from the message, as CLI11's errors have nothing else.
plan::Error atConfigured(const Options &options, plan::Error error);

} // namespace dtc::driver
