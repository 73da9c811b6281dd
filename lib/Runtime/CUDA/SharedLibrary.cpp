#include "SharedLibrary.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <vector>

namespace dtc::rt::cuda {
namespace {

constexpr const char *kFolderVariable = "DTC_CUDA_LIBRARY_PATH";

/// Why dlopen failed, where it is more than that there is no such file.
std::string reasonFor(const std::string &file) {
  const char *text = ::dlerror();
  return text && file.find('/') != std::string::npos ? std::string(": ") + text : "";
}

std::vector<std::string> givenFolders() {
  const char *value = std::getenv(kFolderVariable);
  std::vector<std::string> folders;
  std::istringstream list(value ? value : "");
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty())
      folders.push_back(folder);
  return folders;
}

/// What to do with the variable, once the library is installed.
std::string adviceFor(const std::vector<std::string> &folders) {
  if (folders.empty())
    return std::string(", and set ") + kFolderVariable +
           " to its folder where the system doesn't look there";
  std::string list;
  for (const std::string &folder : folders)
    list += (list.empty() ? "" : ":") + folder;
  return std::string(", and add its folder to ") + kFolderVariable + ": " + list;
}

} // namespace

Result<SharedLibrary> SharedLibrary::open(const LibraryInfo &info) {
  const std::vector<std::string> folders = givenFolders();
  std::string reason;
  for (const char *name : info.files) {
    for (const std::string &folder : folders) {
      std::string file = folder + "/" + name;
      std::error_code error;
      if (!std::filesystem::exists(file, error))
        continue;
      if (void *handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
        return SharedLibrary(info, std::move(file), handle);
      reason = reasonFor(file);
      break;
    }
    if (void *handle = reason.empty() ? ::dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr)
      return SharedLibrary(info, name, handle);
  }
  return Status(ErrorCategory::NoFit, std::string("cannot load ") + info.title + " (" +
                                          info.files.front() + ")" + reason + "; " + info.remedy +
                                          adviceFor(folders));
}

void *SharedLibrary::find(const char *symbol) const { return ::dlsym(handle, symbol); }

Status SharedLibrary::lacks(const char *symbol) const {
  return {ErrorCategory::NoFit, file + " is too old for this dtc-run, it lacks the function " +
                                    symbol + "; " + info.remedy};
}

} // namespace dtc::rt::cuda
