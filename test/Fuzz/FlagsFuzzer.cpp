// Flags of dtc, and what they say together, in process: from files, and as words of a command line.
#include "FuzzInput.h"

#include "Flags/CommandLine.h"

using namespace dtc;

static std::string kind;

/// A command with its own flags, as Driver.cpp declares it.
struct Command {
  explicit Command(const std::string &name) : isCompile(name == "compile") {
    if (name == "estimate")
      driver::declareEstimateFlags(app, estimate.emplace());
    else
      driver::declareFlags(app, raw, {.lowering = isCompile});
    raw.knownArchitectures = {"sm_80", "sm_90"};
  }

  /// CLI11 wants the last word first.
  void read(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    try {
      app.parse(std::move(words));
      if (estimate)
        (void)driver::resolveEstimate(app, *estimate);
      else
        (void)driver::resolve(app, raw, isCompile);
    } catch (const CLI::Error &) {
      // Wrong usage, as it is told to the user.
    }
  }

  CLI::App app;
  driver::RawOptions raw;
  std::optional<driver::RawEstimate> estimate;
  bool isCompile;
};

/// A file of flags as `dtc compile --config` reads it.
static void readFile(const std::string &path) {
  Command compile("compile");
  auto flags = driver::readConfiguration(path, compile.app);
  if (!flags)
    return;
  std::vector<std::string> arguments;
  for (driver::ConfiguredFlag &flag : *flags)
    arguments.push_back(std::move(flag.argument));
  arguments.push_back("model.onnx");
  compile.read(std::move(arguments));
}

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  kind = fuzz::flag(*argc, *argv, "kind");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (kind == "config") {
    fuzz::InputPath input(data, size);
    readFile(input.path());
    return 0;
  }
  std::vector<std::string> words = fuzz::wordsOf(data, size);
  const std::string command = words.front();
  words.erase(words.begin());
  Command(command).read(std::move(words));
  return 0;
}
