#include "Diagnostics.h"

#include "ExitCodes.h"
#include "Outcome.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

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

/// A message as one printable line: a file's text in it, or a name, may be
/// anything, and of any length.
static std::string printable(llvm::StringRef message) {
  constexpr size_t most = 800;
  std::string text = message.str();
  if (text.size() > most)
    text = (message.take_front(most / 2) + " ... " + message.take_back(most / 2)).str();
  std::string line;
  for (size_t at = 0; at < text.size();) {
    auto first = static_cast<unsigned char>(text[at]);
    size_t length = std::max(1u, llvm::getNumBytesForUTF8(first));
    const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data()) + at;
    bool isWhole = at + length <= text.size() && llvm::isLegalUTF8Sequence(begin, begin + length);
    // Control characters: the first of ASCII, DEL, and U+0080 to U+009F.
    bool isControl = first < 0x20 || first == 0x7f ||
                     (first == 0xc2 && isWhole && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (!isWhole)
      length = 1;
    line += isControl ? " " : isWhole ? text.substr(at, length) : "?";
    at += length;
  }
  return line;
}

void printError(const std::string &message) {
  llvm::errs() << "dtc: error: " << printable(message) << "\n";
}

ExitCode fail(const plan::Error &error) {
  printError(error.message);
  return exitCodeOf(error.category);
}

void printWarning(const std::string &message) {
  llvm::errs() << "dtc: warning: " << printable(message) << "\n";
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
        llvm::errs() << "dtc: " << severity << ": " << printable(prefix + text) << "\n";
        for (auto &note : diagnostic.getNotes())
          llvm::errs() << "dtc: note: "
                       << printable(describe(note.getLocation()) + note.str()) << "\n";
        return success();
      }) {}

} // namespace dtc::driver
