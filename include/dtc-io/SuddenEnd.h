// How a process ends where no stack can be unwound: in a signal handler, or without memory in code
// that knows no exceptions. There is one line as for every error, and no unfinished file is left.
#pragma once

#include "dtc-io/Error.h"

#include <atomic>
#include <string>
#include <utility>

namespace dtc::io {

/// "PROGRAM: error: WHERE: WHAT" on stderr, unfinished files removed, exit. Safe in a signal
/// handler.
[[noreturn]] void endSuddenly(ErrorCategory category, const char *where, const char *what);

/// Ends the process so where it would abort for lack of memory. Called once by each program.
void endSuddenlyWithoutMemory();

/// Removes the files that aren't complete, whatever their writers do meanwhile. What they would
/// complete afterwards isn't there.
void removeUnfinishedFiles();

/// A file under a name of its own until it is complete, or a folder of temporary files. While this
/// lives it is removed at a sudden end.
class UnfinishedFile {
public:
  explicit UnfinishedFile(const std::string &path);
  UnfinishedFile(UnfinishedFile &&other) noexcept : slot(std::exchange(other.slot, nullptr)) {}
  UnfinishedFile &operator=(UnfinishedFile &&) = delete;
  ~UnfinishedFile() { forget(); }
  /// It is complete, or removed.
  void forget();

  struct Slot;

private:
  Slot *slot;
};

} // namespace dtc::io
