// The greatest value of any range of a list, by two look-ups: a sparse table (Bender and
// Farach-Colton, The LCA Problem Revisited, LATIN 2000). The greatest of [2, 7) is that of the runs
// of four from 2 and from 3. Runs are found as the first range is asked for: many lists are asked
// for none. So a list belongs to one thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace dtc::plan {

class RangeMax {
public:
  explicit RangeMax(std::vector<int64_t> values = {})
      : count(values.size()), most(std::move(values)) {}
  /// Of the values [a, b), of which there is one at least.
  int64_t operator()(int a, int b) const {
    size_t level = std::bit_width(static_cast<unsigned>(b - a)) - 1, length = size_t{1} << level;
    if (level > 0 && most.size() == count)
      findRuns();
    const int64_t *runs = most.data() + level * (count + 1) - (length - 1);
    return std::max(runs[a], runs[static_cast<size_t>(b) - length]);
  }

private:
  void findRuns() const {
    most.resize(count + levelsAbove());
    size_t half = 0;
    for (size_t length = 1; 2 * length <= count; length *= 2) {
      size_t whole = half + count - length + 1;
      for (size_t i = 0; i + 2 * length <= count; ++i)
        most[whole + i] = std::max(most[half + i], most[half + i + length]);
      half = whole;
    }
  }
  size_t levelsAbove() const {
    size_t entries = 0;
    for (size_t length = 2; length <= count; length *= 2)
      entries += count - length + 1;
    return entries;
  }

  size_t count;
  /// Of runs of 1, then of 2, 4, ... values, by their first.
  mutable std::vector<int64_t> most;
};

} // namespace dtc::plan
