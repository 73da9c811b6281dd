// The commands of dtc.
#pragma once

namespace dtc::driver {

/// Runs the command line and returns the exit code (dtc-rt/PackageFormat.h).
int run(int argc, char **argv);

} // namespace dtc::driver
