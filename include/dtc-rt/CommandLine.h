#pragma once

namespace dtc::rt {

/// dtc-run: parses the command line, runs, prints an error; the exit code.
int runCommand(int argc, char **argv);

} // namespace dtc::rt
