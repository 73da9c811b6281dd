// Where dtc keeps what it would otherwise make again: $XDG_CACHE_HOME/dtc, or else ~/.cache/dtc.
#pragma once

#include "dtc-io/Environment.h"

#include <string>

namespace dtc::io {

/// A file or folder there, or the one that the variable names. Empty where that is `off`, or there
/// is no such place.
std::string inUserCache(const std::string &name, Variable variable);

} // namespace dtc::io
