// Where dtc keeps what it would otherwise make again: $XDG_CACHE_HOME/dtc, or else ~/.cache/dtc.
#pragma once

#include <string>

namespace dtc::io {

/// A file or folder there, or the one that `variable` of the environment names. Empty where the
/// variable is `off`, or there is no such place.
std::string inUserCache(const std::string &name, const char *variable);

} // namespace dtc::io
