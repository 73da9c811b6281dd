// The distinct values of a list, in order.
#pragma once

#include <algorithm>
#include <vector>

namespace dtc::plan {

/// Sorts a list and keeps each of its values once.
template <typename T>
void keepDistinct(std::vector<T> &list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

} // namespace dtc::plan
