#pragma once

#include <optional>
#include <string>

namespace dtc::plan {

/// The text of a file; nullopt where it can't be read, as of a folder.
std::optional<std::string> readText(const std::string &path);

} // namespace dtc::plan
