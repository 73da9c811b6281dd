// Errors, warnings and notes as one line for users.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <functional>
#include <string>

namespace dtc::driver {

/// Unsupported is an error about an input that is sound (Import/Unsupported.h).
enum class Severity : uint8_t { Error, Warning, Note, Unsupported };

/// Takes one printable line.
using DiagnosticHandler = std::function<void(Severity, const std::string &)>;

/// While it lives, what its thread says goes to the handler. Elsewhere it goes to stderr, as
/// `dtc: error: FILE: node 'NAME': message`. A library's caller has one of its own, so that several
/// threads may plan side by side.
class DiagnosticScope {
public:
  explicit DiagnosticScope(DiagnosticHandler handler);
  ~DiagnosticScope();
  DiagnosticScope(const DiagnosticScope &) = delete;
  DiagnosticScope &operator=(const DiagnosticScope &) = delete;

private:
  DiagnosticHandler handler;
  const DiagnosticHandler *before; ///< of the scope around this one
};

/// Says a line of any severity.
void say(Severity severity, llvm::StringRef message);
void printError(const std::string &message);
/// The command goes on.
void printWarning(const std::string &message);
void printNote(const std::string &message);

/// Says the context's diagnostics while it lives. Locations are ONNX nodes
/// (NameLoc); a note comes after its error.
class DiagnosticPrinter {
public:
  /// `name` is what the user calls the file, where that isn't its path.
  DiagnosticPrinter(mlir::MLIRContext &context, std::string file, std::string name);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace dtc::driver
