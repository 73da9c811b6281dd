// Files that commands write.
#pragma once

#include "dtc/Driver/Outcome.h"

#include <string>

namespace dtc::driver {

/// Writes `text` to a file, complete or not at all; what is no regular file
/// (/dev/stdout, a pipe) is written to as it is. Prints the error.
Failure writeText(const std::string &path, const std::string &text);

} // namespace dtc::driver
