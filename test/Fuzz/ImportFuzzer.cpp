// What the compiler reads before it plans, in process: models and files of flags.
#include "FuzzInput.h"

#include "CommandLine.h"
#include "dtc/Import/ONNX/Import.h"

#include "mlir/IR/Diagnostics.h"

using namespace dtc;

static std::string kind;

static void importModel(const std::string &path) {
  // A context of its own for each: what one model leaves behind would hide what another does.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
  import::ImportOptions options;
  options.path = path;
  options.training = false;
  (void)mlir::succeeded(import::importONNX(context, options));
}

/// Flags as `dtc compile --config` reads them, and what they say together.
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

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  kind = fuzz::flag(*argc, *argv, "kind");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::InputPath input(data, size);
  if (kind == "config")
    readFlags(input.path());
  else
    importModel(input.path());
  return 0;
}
