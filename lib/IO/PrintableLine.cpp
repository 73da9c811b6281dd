#include "dtc-io/PrintableLine.h"

#include <cstdint>

namespace dtc::io {
namespace {

/// A character and its bytes; none where the text isn't UTF-8.
struct Character {
  uint32_t code = 0;
  size_t length = 0;
};

} // namespace

/// The first character of a text that isn't empty.
static Character firstOf(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80)
    return {first, 1};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || length > text.size())
    return {};
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80)
      return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool isHalf = code >= 0xd800 && code <= 0xdfff; // of a pair of UTF-16
  return code < kLeast[length] || code > 0x10ffff || isHalf ? Character{} : Character{code, length};
}

std::string printableLine(std::string_view message) {
  constexpr size_t kMost = 800;
  std::string text(message);
  if (text.size() > kMost)
    text.replace(kMost / 2, text.size() - kMost, " ... ");
  std::string line;
  for (std::string_view rest = text; !rest.empty();) {
    const Character each = firstOf(rest);
    const size_t length = each.length == 0 ? 1 : each.length;
    const bool isControl = each.code < 0x20 || (each.code >= 0x7f && each.code < 0xa0);
    if (each.length == 0)
      line += '?';
    else
      line += isControl ? " " : rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return line;
}

} // namespace dtc::io
