#include "dtc-io/UserCache.h"

#include <cstdlib>
#include <filesystem>

namespace dtc::io {

static std::filesystem::path folderOf(const char *variable) {
  const char *value = std::getenv(variable);
  return value ? value : "";
}

std::string inUserCache(const std::string &name, Variable variable) {
  if (std::string asked = valueOf(variable); !asked.empty())
    return asked == "off" ? "" : asked;
  std::filesystem::path folder = folderOf("XDG_CACHE_HOME");
  if (const std::filesystem::path home = folderOf("HOME"); folder.empty() && !home.empty())
    folder = home / ".cache";
  return folder.is_absolute() ? (folder / "dtc" / name).string() : "";
}

} // namespace dtc::io
