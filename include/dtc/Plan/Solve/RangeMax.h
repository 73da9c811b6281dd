// The greatest of any neighbours in a list.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace dtc::plan {

class RangeMax {
public:
  explicit RangeMax(std::vector<int64_t> values = {}) : levels{std::move(values)} {
    for (size_t length = 1; 2 * length <= levels[0].size(); length *= 2) {
      const std::vector<int64_t> &half = levels.back();
      std::vector<int64_t> whole(half.size() - length);
      for (size_t i = 0; i < whole.size(); ++i)
        whole[i] = std::max(half[i], half[i + length]);
      levels.push_back(std::move(whole));
    }
  }
  /// Of the values [a, b), of which there is one at least.
  int64_t operator()(int a, int b) const {
    int level = std::bit_width(static_cast<unsigned>(b - a)) - 1;
    return std::max(levels[level][a], levels[level][b - (1 << level)]);
  }

private:
  std::vector<std::vector<int64_t>> levels; ///< of runs of 1, 2, 4, ... values, by their first
};

} // namespace dtc::plan
