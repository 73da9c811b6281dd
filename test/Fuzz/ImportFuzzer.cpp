// Models, as the importers read them, in process.
#include "FuzzInput.h"

#include "dtc/Import/ONNX/Import.h"
#include "dtc/Import/PyTorch/Import.h"

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
  auto file = kind == "exported" ? import::openExportedProgram(context, options)
                                 : import::openONNX(context, options);
  if (mlir::succeeded(file))
    (void)mlir::succeeded((*file)->import(std::nullopt));
}

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  kind = fuzz::flag(*argc, *argv, "kind");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::InputPath input(data, size);
  importModel(input.path());
  return 0;
}
