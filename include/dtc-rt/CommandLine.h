// The command line of dtc-run: its arguments, checked, as options of a run.
#pragma once

#include "dtc-rt/Run.h"

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace dtc::rt {

/// argv without the program's name, `--a_b=x` written `--a-b=x`. What follows `--plan-from` are the
/// words of another program, and stays.
std::vector<std::string> normalizeArguments(int argc, char **argv);

/// Of a parsed command line, what is wrong with a flag that has an empty value, as where a script's
/// variable isn't set: it would count as not given. Empty: there is none.
std::string findEmptyValue(const CLI::App &app);

/// What is wrong with the arguments of a command, as one line.
std::string describe(const CLI::ParseError &error, const CLI::App &command);

/// What the arguments ask for. Wrong ones are wrong usage.
Status readArguments(std::vector<std::string> arguments, RunOptions &options);

/// dtc-run: parses the command line, runs, prints an error; the exit code.
int runCommand(int argc, char **argv);

} // namespace dtc::rt
