#pragma once

#include <span>
#include <string>

namespace dtc::rt {

/// SHA-256 in lower-case hex.
std::string sha256(std::span<const char> bytes);

} // namespace dtc::rt
