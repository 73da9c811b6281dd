#include "dtc-io/WholeNumber.h"

#include <charconv>
#include <optional>

namespace dtc::io {

template <typename Number> static std::optional<Number> parse(const std::string &text) {
  Number value = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::string checkWholeNumber(std::string &text, int64_t least, uint64_t most) {
  const std::optional<int64_t> negative =
      text.starts_with("-") ? parse<int64_t>(text) : std::nullopt;
  const std::optional<uint64_t> positive = parse<uint64_t>(text);
  const bool fits = negative ? *negative >= least
                             : positive && *positive <= most &&
                                   (least <= 0 || *positive >= static_cast<uint64_t>(least));
  if (!fits)
    return "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
           ", got '" + text + "'";
  text = negative ? std::to_string(*negative) : std::to_string(*positive);
  return "";
}

} // namespace dtc::io
