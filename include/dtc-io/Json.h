// JSON that somebody else wrote.
//
// nlohmann's values are copied, compared and printed by recursion, and take some thirty times the
// memory of their text. So what nests deeper than any file of ours, or has more values, isn't
// parsed.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace dtc::io {

/// Why a text is too deep or too large to be parsed; empty where it isn't.
std::string checkJson(std::string_view text);

/// Nothing where it can't be parsed; `why` then says the reason.
template <typename Json> std::optional<Json> parseJson(std::string_view text, std::string &why) {
  why = checkJson(text);
  if (!why.empty())
    return std::nullopt;
  Json root = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    why = "is not JSON";
    return std::nullopt;
  }
  return root;
}

} // namespace dtc::io
