#include "dtc-io/Json.h"

namespace dtc::io {

std::string checkJson(std::string_view text) {
  constexpr int64_t kMostDepth = 64, kMostValues = 1 << 23;
  int64_t depth = 0, values = 1;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
      continue;
    }
    inString = c == '"';
    bool opens = c == '[' || c == '{';
    values += opens || c == ',';
    depth += opens - (c == ']' || c == '}');
    if (depth > kMostDepth)
      return "nests deeper than " + std::to_string(kMostDepth) + " levels";
    if (values > kMostValues)
      return "has more than " + std::to_string(kMostValues) + " values";
  }
  return {};
}

} // namespace dtc::io
