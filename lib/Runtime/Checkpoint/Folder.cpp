#include "dtc-rt/Checkpoint/Folder.h"

#include "dtc-rt/Program/MappedFile.h"
#include "dtc-rt/Program/PackageFormat.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc::rt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";

/// N of a name step-N.
std::optional<int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kStep))
    return std::nullopt;
  name.remove_prefix(kStep.size());
  int64_t step = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  bool isNumber = error == std::errc() && end == name.data() + name.size() && step > 0;
  return isNumber && std::to_string(step) == name ? std::optional(step) : std::nullopt;
}

template <typename Use> void forEachName(const std::string &path, Use &&use) {
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    use(entry->path().filename().string());
}

/// Creates a folder and those that it is in. Gives the paths of those that weren't there.
std::vector<std::string> createFolders(const std::string &path, std::error_code &error) {
  std::vector<std::string> made;
  fs::path whole;
  for (const fs::path &part : fs::path(path)) {
    whole /= part;
    std::error_code isMissing; // mkdir doesn't say everywhere that a folder is there
    if (part.empty() || fs::is_directory(whole, isMissing))
      continue;
    if (fs::create_directory(whole, error))
      made.push_back(whole);
    if (error)
      break;
  }
  return made;
}

} // namespace

Result<CheckpointFolder> CheckpointFolder::claim(const std::string &path) {
  CheckpointFolder folder;
  folder.path = path;
  std::error_code error;
  folder.made = createFolders(path, error);
  if (!error)
    folder.descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder.descriptor < 0)
    return failed(path + ": cannot be a folder of checkpoints: " +
                  (error ? error.message() : std::strerror(errno)));
  // The lock ends with the process, however that ends. A file system without locks has none.
  if (::flock(folder.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    folder.made.clear(); // it is the other's now
    return Status(ErrorCategory::Usage, path +
                                            ": another run writes its checkpoints here; give each "
                                            "its own --checkpoint-dir");
  }
  struct stat info;
  if (::fstat(folder.descriptor, &info) == 0 && info.st_nlink == 0) {
    folder.made.clear();
    return claim(path); // the run that had it has removed it meanwhile
  }
  folder.removePartials();
  return folder;
}

CheckpointFolder CheckpointFolder::visit(const std::string &path) {
  CheckpointFolder folder;
  folder.path = path;
  return folder;
}

CheckpointFolder::~CheckpointFolder() {
  while (!made.empty() && ::rmdir(made.back().c_str()) == 0) // fails where there is something in it
    made.pop_back();
  if (descriptor >= 0)
    ::close(descriptor);
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> found;
  forEachName(path, [&](const std::string &name) {
    if (std::optional<int64_t> step = stepOf(name))
      found.push_back(*step);
  });
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// A folder can't be renamed onto another, so one of the same step is first moved aside. Only a
/// damaged one is ever replaced.
Status CheckpointFolder::commit(const std::string &partial, int64_t step) const {
  syncFolder(partial);
  std::string target = nameOf(step), old = partial + "-replaced";
  std::lock_guard lock(ending->mutex);
  if (ending->isAbandoned)
    return failed(target + ": isn't made, as the run has ended");
  std::error_code error;
  if (fs::exists(target, error))
    fs::rename(target, old, error);
  if (!error)
    fs::rename(partial, target, error);
  if (error)
    return failed(target + ": cannot be renamed to: " + error.message());
  syncFolder(path);
  fs::remove_all(old, error);
  return Status::ok();
}

void CheckpointFolder::removeAllBut(int64_t newest) const {
  std::vector<int64_t> all = steps();
  std::error_code error;
  for (size_t i = static_cast<size_t>(newest); i < all.size(); ++i)
    fs::rename(nameOf(all[i]), nameOf(all[i]) + kPartialSuffix + "removed", error);
  removePartials();
}

void CheckpointFolder::removePartials() const {
  if (descriptor < 0)
    return;
  std::vector<std::string> partials;
  forEachName(path, [&](const std::string &name) {
    size_t suffix = name.find(kPartialSuffix);
    if (suffix != std::string::npos && stepOf(name.substr(0, suffix)))
      partials.push_back(name);
  });
  std::error_code error;
  for (const std::string &name : partials)
    fs::remove_all(path + "/" + name, error);
}

void CheckpointFolder::abandon() const {
  std::lock_guard lock(ending->mutex);
  ending->isAbandoned = true;
  removePartials();
}

} // namespace dtc::rt
