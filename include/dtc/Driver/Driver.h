// The commands of dtc.
#pragma once

#include "dtc/Driver/Outcome.h"

#include <iosfwd>
#include <string>
#include <vector>

namespace dtc::driver {

struct Options;

/// Runs the command line and returns the exit code (dtc-io/ExitCodes.h).
int run(int argc, char **argv);

/// The same for a caller that goes on: `arguments` begin with the name of the command.
Failure run(const std::vector<std::string> &arguments, std::ostream &out);

/// The operators of PyTorch that are read, with commas between: "aten.add,aten.mul".
std::string importedOperators();

/// What the flags of `dtc plan` mean, of which the first is the model.
Outcome<Options> readPlanFlags(const std::vector<std::string> &flags);

} // namespace dtc::driver
