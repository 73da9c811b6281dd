#include "SharedLibrary.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace dtc::rt::cuda {
namespace {

constexpr const char *kFolderVariable = "DTC_CUDA_LIBRARY_PATH";

/// Why dlopen failed, where it is more than that there is no such file.
std::string reasonFor(const std::string &file) {
  const char *text = ::dlerror();
  return text && file.find('/') != std::string::npos ? std::string(": ") + text : "";
}

} // namespace

Result<SharedLibrary> SharedLibrary::open(const LibraryInfo &info) {
  const char *folder = std::getenv(kFolderVariable);
  std::string reason;
  for (const char *name : info.files) {
    if (folder && *folder) {
      std::string file = std::string(folder) + "/" + name;
      if (std::error_code error; std::filesystem::exists(file, error)) {
        if (void *handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
          return SharedLibrary(info, std::move(file), handle);
        reason = reasonFor(file);
        break;
      }
    }
    if (void *handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return SharedLibrary(info, name, handle);
  }
  return Status(ErrorCategory::NoFit, std::string("cannot load ") + info.title + " (" +
                                          info.files.front() + ")" + reason + "; " + info.remedy +
                                          ", or set " + kFolderVariable + " to its folder");
}

void *SharedLibrary::find(const char *symbol) const { return ::dlsym(handle, symbol); }

Status SharedLibrary::lacks(const char *symbol) const {
  return {ErrorCategory::NoFit, file + " is too old for this dtc-run, it lacks the function " +
                                    symbol + "; " + info.remedy};
}

} // namespace dtc::rt::cuda
