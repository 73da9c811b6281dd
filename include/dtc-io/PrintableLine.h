// What files say, and how they are called, on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace dtc::io {

/// A message as one printable line of moderate length: a file's text in it may be anything.
std::string printableLine(std::string_view message);

} // namespace dtc::io
