#include "dtc-io/SuddenEnd.h"

#include "dtc-io/ExitCodes.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <exception>
#include <fcntl.h>
#include <new>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace dtc::io {

/// Slots are used again and never freed, so that a signal handler may walk them at any time.
struct UnfinishedFile::Slot {
  std::atomic<bool> taken{true};
  std::atomic<const char *> path{nullptr};
  Slot *next = nullptr;
};

static std::atomic<UnfinishedFile::Slot *> unfinished{nullptr};

UnfinishedFile::UnfinishedFile(const std::string &path) : slot(unfinished.load()) {
  for (; slot; slot = slot->next)
    if (bool taken = false; slot->taken.compare_exchange_strong(taken, true))
      break;
  if (!slot) {
    slot = new Slot;
    slot->next = unfinished.load();
    while (!unfinished.compare_exchange_weak(slot->next, slot)) {
    }
  }
  slot->path = ::strdup(path.c_str()); // not freed: a handler may be reading it
}

void UnfinishedFile::forget() {
  if (!slot)
    return;
  slot->path = nullptr;
  slot->taken = false;
  slot = nullptr;
}

/// The files of a folder. Reading it as usual allocates, which a signal handler may not.
static void removeFilesIn(const char *folder) {
  const int descriptor = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  alignas(dirent64) std::array<char, 4096> entries;
  for (long bytes;
       (bytes = ::syscall(SYS_getdents64, descriptor, entries.data(), entries.size())) > 0;)
    for (long at = 0; at < bytes;) {
      const auto *entry = reinterpret_cast<const dirent64 *>(entries.data() + at);
      ::unlinkat(descriptor, entry->d_name, 0);
      at += entry->d_reclen;
    }
  ::close(descriptor);
}

/// Whoever still writes into a folder may add a file while it is emptied.
static void removeFolder(const char *folder) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    removeFilesIn(folder);
    if (::rmdir(folder) == 0 || errno != ENOTEMPTY)
      return;
  }
}

void removeUnfinishedFiles() {
  for (auto *slot = unfinished.load(); slot; slot = slot->next)
    if (const char *path = slot->path.load(); path && ::unlink(path) != 0 && errno == EISDIR)
      removeFolder(path);
}

static std::atomic<bool> isEnding{false};

void endSuddenly(ErrorCategory category, const char *where, const char *what) {
  // Threads run out of memory together; the first one's line is enough.
  while (isEnding.exchange(true))
    ::pause();
  removeUnfinishedFiles();
  std::array<iovec, 6> line;
  size_t count = 0;
  for (const char *text : {static_cast<const char *>(program_invocation_short_name),
                           ": error: ", where, *where ? ": " : "", what, "\n"})
    line[count++] = {const_cast<char *>(text), std::strlen(text)};
  if (::writev(STDERR_FILENO, line.data(), static_cast<int>(count)) < 0) {
    // Nobody is there to be told.
  }
  ::_exit(exitCodeOf(category));
}

/// What ends a thread that has thrown, as one without memory does.
[[noreturn]] static void terminate() {
  if (std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc &) {
      endSuddenly(ErrorCategory::Failed, "", "out of memory");
    } catch (const std::exception &error) {
      endSuddenly(ErrorCategory::Failed, "", error.what());
    } catch (...) {
      std::abort();
    }
  }
  std::abort();
}

void endSuddenlyWithoutMemory() {
  std::set_new_handler([] { endSuddenly(ErrorCategory::Failed, "", "out of memory"); });
  std::set_terminate(terminate);
}

} // namespace dtc::io
