#include "Diagnostics.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

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

void printError(const std::string &message) {
  std::string line = message; // a file's text, or a name in it, may have several
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  llvm::errs() << "dtc: error: " << line << "\n";
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, std::string file)
    : handler(&context, [file = std::move(file)](Diagnostic &diagnostic) {
        const char *severity = diagnostic.getSeverity() == DiagnosticSeverity::Error ? "error"
                               : diagnostic.getSeverity() == DiagnosticSeverity::Warning
                                   ? "warning"
                                   : "note";
        std::string text = diagnostic.str();
        // A message that names the file already (import errors) stands alone.
        std::string prefix =
            text.starts_with(file) ? "" : file + ": " + describe(diagnostic.getLocation());
        llvm::errs() << "dtc: " << severity << ": " << prefix << text << "\n";
        for (auto &note : diagnostic.getNotes())
          llvm::errs() << "dtc: note: " << describe(note.getLocation()) << note.str() << "\n";
        return success();
      }) {}

} // namespace dtc::driver
