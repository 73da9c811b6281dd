// The commands of dtc, each on checked options.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc-rt/PackageFormat.h"

namespace dtc::driver {

/// Compiles a model into an artifact and prints the plan it chose.
rt::ExitCode compile(const Options &options);

/// Plans and prints; needs neither weights nor a toolchain.
rt::ExitCode planOnly(Options options);

struct InspectOptions {
  std::string artifact;
  bool json = false;
};
rt::ExitCode inspect(const InspectOptions &options);

struct CalibrateOptions {
  std::string output;
};
/// Measures this machine and writes it as a cluster file.
rt::ExitCode calibrate(const CalibrateOptions &options);

} // namespace dtc::driver
