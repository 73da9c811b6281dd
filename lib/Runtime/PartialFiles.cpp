#include "dtc-rt/PartialFiles.h"

#include "dtc-rt/PackageFormat.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <vector>

namespace dtc::rt {

namespace fs = std::filesystem;

static bool isGone(std::string_view process) {
  int number = 0;
  auto [end, error] = std::from_chars(process.data(), process.data() + process.size(), number);
  bool isNumber = error == std::errc() && end == process.data() + process.size() && number > 0;
  return isNumber && ::kill(number, 0) != 0 && errno == ESRCH;
}

void removeAbandonedPartials(const std::string &path) {
  fs::path folder = fs::path(path).parent_path();
  std::string start = fs::path(path).filename().string() + kPartialSuffix;
  std::error_code error;
  std::vector<fs::path> abandoned;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(start) && isGone(std::string_view(name).substr(start.size())))
      abandoned.push_back(entry->path());
  }
  for (const fs::path &file : abandoned)
    fs::remove(file, error);
}

} // namespace dtc::rt
