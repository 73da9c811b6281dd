#include "dtc-io/AttentionWindows.h"

#include <algorithm>
#include <optional>
#include <sstream>

namespace dtc::io {
namespace {

constexpr const char *kAll = "all", *kOf = "of", *kKeys = "keys";

std::optional<AttentionWindow> parseWindow(const std::string &text) {
  std::istringstream words(text);
  std::string seen, of, keys, more;
  AttentionWindow result;
  if (!(words >> seen >> of >> result.keys >> keys) || of != kOf || keys != kKeys || words >> more)
    return std::nullopt;
  result.window = result.keys;
  if (std::istringstream number(seen); seen != kAll && !(number >> result.window && number.eof()))
    return std::nullopt;
  return result;
}

/// Nothing where a text says something else.
std::optional<std::set<AttentionWindow>> parseWindows(const std::string &text) {
  std::set<AttentionWindow> result;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ';');) {
    std::optional<AttentionWindow> window = parseWindow(item);
    if (!window)
      return std::nullopt;
    result.insert(*window);
  }
  return result;
}

/// What shows in a sequence of so many keys.
std::set<int64_t> shownIn(int64_t keys, const std::set<AttentionWindow> &windows) {
  std::set<int64_t> shown;
  for (const AttentionWindow &each : windows)
    shown.insert(std::min(each.window, keys));
  return shown;
}

} // namespace

std::string textOf(const std::set<AttentionWindow> &windows) {
  std::string text;
  for (const auto &[keys, window] : windows)
    text += (text.empty() ? "" : "; ") + (window < keys ? std::to_string(window) : kAll) + " " +
            kOf + " " + std::to_string(keys) + " " + kKeys;
  return text;
}

bool areWindowsAlike(const std::string &one, const std::string &other) {
  const auto a = parseWindows(one), b = parseWindows(other);
  if (!a || !b || a->empty() || b->empty())
    return one == other;
  const int64_t keys = std::min(a->begin()->keys, b->begin()->keys); // the least
  return shownIn(keys, *a) == shownIn(keys, *b);
}

} // namespace dtc::io
