// Text that a file brought, made safe for a terminal: names, messages and paths may hold control
// characters.
#pragma once

#include <string>
#include <string_view>

namespace dtc::io {

/// A message as one printable line of moderate length: a file's text in it may be anything.
std::string printableLine(std::string_view message);

} // namespace dtc::io
