// The exit codes of dtc and dtc-run, a contract (docs/Commands.md). 0 is success.
#pragma once

#include "dtc-io/Error.h"

namespace dtc::io {

/// How a program ends after an error of this category: 3 for InputRefused.
int exitCodeOf(ErrorCategory category);

/// Why another program ended so. Failed where the code, which isn't 0, is none of ours.
ErrorCategory categoryOf(int exitCode);

} // namespace dtc::io
