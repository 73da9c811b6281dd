// Which exit code of the command line a category of errors has (docs/Commands.md).
#pragma once

#include "dtc-rt/Status.h"
#include "dtc/Plan/Plan/Result.h"

namespace dtc::driver {

/// Failed, Usage and InputRefused have the code of that name; NoPlan is NoFit.
rt::ExitCode exitCodeOf(plan::ErrorCategory category);

/// An error of what compiler and runtime share, such as reading weights.
plan::Error errorOf(const rt::Status &status);

} // namespace dtc::driver
