// What each byte of an arena holds, for checks that are independent of who planned it.
#pragma once

#include <cstdint>
#include <map>

namespace dtc::lower {

/// The last thing that was written to each byte.
class ArenaContents {
public:
  using Content = uint64_t; ///< 0: nothing known

  /// True if all of [begin, begin + bytes) holds `content`.
  bool holds(uint64_t begin, uint64_t bytes, Content content) const {
    if (bytes == 0)
      return true;
    auto it = segments.upper_bound(begin);
    if (it == segments.begin())
      return false;
    for (--it; it != segments.end() && it->first < begin + bytes; ++it)
      if (it->second != content)
        return false;
    return true;
  }

  void write(uint64_t begin, uint64_t bytes, Content content) {
    if (bytes == 0)
      return;
    uint64_t end = begin + bytes;
    auto next = segments.upper_bound(begin);
    Content last = next == segments.begin() ? Content{0} : std::prev(next)->second;
    for (; next != segments.end() && next->first < end; next = segments.erase(next))
      last = next->second;
    // What was there goes on behind the end.
    if (next == segments.end() || next->first != end)
      next = segments.emplace_hint(next, end, last);
    segments.insert_or_assign(next, begin, content);
  }

private:
  std::map<uint64_t, Content> segments; ///< from each start to the next
};

} // namespace dtc::lower
