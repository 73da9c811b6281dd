#include "dtc-rt/Program/PartialFiles.h"

#include "dtc-rt/Program/PackageFormat.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>
#include <vector>

namespace dtc::rt {

namespace fs = std::filesystem;

static bool isGone(std::string_view process) {
  int number = 0;
  auto [end, error] = std::from_chars(process.data(), process.data() + process.size(), number);
  bool isNumber = error == std::errc() && end == process.data() + process.size() && number > 0;
  return isNumber && ::kill(number, 0) != 0 && errno == ESRCH;
}

/// The partial files of a path, with the name of the process that writes each.
static std::vector<std::pair<fs::path, std::string>> partialsOf(const std::string &path) {
  fs::path folder = fs::path(path).parent_path();
  std::string start = fs::path(path).filename().string() + kPartialSuffix;
  std::error_code error;
  std::vector<std::pair<fs::path, std::string>> partials;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(start))
      partials.emplace_back(entry->path(), name.substr(start.size()));
  }
  return partials;
}

void removeAbandonedPartials(const std::string &path) {
  std::error_code error;
  for (const auto &[file, process] : partialsOf(path))
    if (isGone(process))
      fs::remove(file, error);
}

bool isBeingWritten(const std::string &path) {
  for (const auto &[file, process] : partialsOf(path)) {
    int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
      continue;
    const bool isLocked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(descriptor);
    if (isLocked)
      return true;
  }
  return false;
}

FolderLock::FolderLock(const std::string &folder) {
  if (folder.empty())
    return;
  descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0)
    ::flock(descriptor, LOCK_EX);
}

FolderLock::~FolderLock() {
  if (descriptor >= 0)
    ::close(descriptor);
}

} // namespace dtc::rt
