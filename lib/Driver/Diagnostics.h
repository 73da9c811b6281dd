// Diagnostics of the IR as one line for users.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace dtc::driver {

/// `error: FILE: node 'NAME': message` on stderr.
void printError(const std::string &message);
/// The same with `warning:`; the command goes on.
void printWarning(const std::string &message);

/// Prints the context's diagnostics while it lives. Locations are ONNX nodes
/// (NameLoc); a note is printed below its error.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, std::string file);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace dtc::driver
