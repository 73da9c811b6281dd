#include "dtc-io/OutputPath.h"

#include <filesystem>

namespace dtc::io {

namespace fs = std::filesystem;

/// As many links as Linux follows.
static constexpr int kMostLinks = 40;

std::string endOfLinks(const std::string &path) {
  fs::path at = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    if (!fs::is_symlink(fs::symlink_status(at, error)))
      return at.string();
    fs::path target = fs::read_symlink(at, error);
    if (error)
      return path;
    at = at.parent_path() / target; // an absolute target stands alone
  }
  return path;
}

} // namespace dtc::io
