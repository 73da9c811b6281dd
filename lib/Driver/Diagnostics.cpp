#include "dtc/Driver/Diagnostics.h"

#include "dtc-io/PrintableLine.h"
#include "dtc/Driver/Outcome.h"
#include "dtc/Import/Unsupported.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;

namespace dtc::driver {

/// The node names in a location: one for a NameLoc, several for a fused one.
static void collectNames(Location location, llvm::SmallVectorImpl<std::string> &names) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    if (!name.getName().empty() && !llvm::is_contained(names, name.getName().str()))
      names.push_back(name.getName().str());
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    collectNames(call.getCallee(), names);
  }
}

static std::string describe(Location location) {
  llvm::SmallVector<std::string> names;
  collectNames(location, names);
  return names.empty() ? "" : "node '" + names.front() + "': ";
}

/// Of the innermost scope of the thread; null: stderr.
static thread_local const DiagnosticHandler *current = nullptr;

DiagnosticScope::DiagnosticScope(DiagnosticHandler handler)
    : handler(std::move(handler)), before(current) {
  current = &this->handler;
}

DiagnosticScope::~DiagnosticScope() { current = before; }

void say(Severity severity, llvm::StringRef message) {
  static constexpr const char *kWords[] = {"error", "warning", "note", "error"};
  std::string line = io::printableLine(message);
  if (current)
    (*current)(severity, line);
  else
    llvm::errs() << "dtc: " << kWords[size_t(severity)] << ": " << line << "\n";
}

void printError(const std::string &message) { say(Severity::Error, message); }

ErrorCategory fail(const plan::Error &error) {
  printError(error.message);
  return error.category;
}

void printWarning(const std::string &message) { say(Severity::Warning, message); }

void printNote(const std::string &message) { say(Severity::Note, message); }

static Severity severityOf(Diagnostic &diagnostic) {
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    return import::isUnsupported(diagnostic) ? Severity::Unsupported : Severity::Error;
  case DiagnosticSeverity::Warning:
    return Severity::Warning;
  default:
    return Severity::Note;
  }
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, std::string file, std::string name)
    : handler(&context, [file = std::move(file), name = std::move(name),
                         said = std::set<std::string>()](Diagnostic &diagnostic) mutable {
        std::string text = diagnostic.str();
        const std::string &called = name.empty() ? file : name;
        // A message that names the file already (import errors) stands alone.
        const bool namesFile = text.starts_with(file);
        std::string prefix =
            namesFile ? called : called + ": " + describe(diagnostic.getLocation());
        if (namesFile)
          text.erase(0, file.size());
        // A model that is imported for two batches says the same twice.
        if (!said.insert(prefix + text).second &&
            diagnostic.getSeverity() == DiagnosticSeverity::Warning)
          return success();
        say(severityOf(diagnostic), prefix + text);
        for (auto &note : diagnostic.getNotes())
          say(Severity::Note, describe(note.getLocation()) + note.str());
        return success();
      }) {}

} // namespace dtc::driver
