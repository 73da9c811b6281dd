// The commands of dtc, each on checked options.
#pragma once

#include "Flags/CommandOptions.h"

#include "dtc/Driver/Options.h"
#include "dtc/Driver/Outcome.h"

#include <iosfwd>

namespace dtc::driver {

/// Where a command's answer goes, and what comes after it.
struct Answer {
  std::ostream &out;
  bool processEnds; ///< then what is large isn't taken apart
};

/// Compiles a model into an artifact and prints the plan it chose.
Failure compile(const Options &options, const Answer &answer);

/// Plans and prints; needs neither weights nor a toolchain.
Failure planOnly(Options options, const Answer &answer);

/// Prints how many devices of each type a model needs.
Failure estimate(const EstimateOptions &options, const Answer &answer);

Failure inspect(const InspectOptions &options, const Answer &answer);

/// Measures this machine, or its GPUs, and writes it as a cluster file.
Failure calibrate(const CalibrateOptions &options, const Answer &answer);

} // namespace dtc::driver
