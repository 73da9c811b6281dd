// Files of flags, and what they say together, in process.
#include "FuzzInput.h"

#include "CommandLine.h"

using namespace dtc;

/// Flags as `dtc compile --config` reads them.
static void readFlags(const std::string &path) {
  driver::RawOptions raw;
  CLI::App command;
  driver::declareFlags(command, raw, {.lowering = true});
  auto flags = driver::configArguments(path, command);
  if (!flags)
    return;
  flags->push_back("model.onnx");
  try {
    command.parse(std::vector<std::string>(flags->rbegin(), flags->rend()));
    (void)driver::resolve(command, raw, /*compiling=*/true);
  } catch (const CLI::Error &) {
    // Wrong usage, as it is told to the user.
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::InputPath input(data, size);
  readFlags(input.path());
  return 0;
}
