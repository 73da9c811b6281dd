// Errors about flags that a configuration gives.
#pragma once

#include "dtc/Driver/Options.h"

namespace dtc::driver {

/// An error that names a flag of --config, with the place of that flag. It is then an input that is
/// refused, not wrong usage.
plan::Error atConfigured(const Options &options, plan::Error error);

} // namespace dtc::driver
