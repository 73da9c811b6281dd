#include "dtc-io/UserCache.h"

#include <cstdlib>
#include <filesystem>

namespace dtc::io {

static std::string valueOf(const char *variable) {
  const char *value = std::getenv(variable);
  return value ? value : "";
}

std::string inUserCache(const std::string &name, const char *variable) {
  if (std::string asked = valueOf(variable); !asked.empty())
    return asked == "off" ? "" : asked;
  std::filesystem::path folder = valueOf("XDG_CACHE_HOME");
  if (folder.empty() && !valueOf("HOME").empty())
    folder = std::filesystem::path(valueOf("HOME")) / ".cache";
  return folder.is_absolute() ? (folder / "dtc" / name).string() : "";
}

} // namespace dtc::io
