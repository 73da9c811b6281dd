// Sums that a pipeline stage has, for all stages at once: a stage is a run of
// units [a, b), and each summand counts in a rectangle of pairs (a, b).
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace dtc::plan {

class StageTable {
public:
  explicit StageTable(int units = 0) : size(units + 1) {}

  /// Adds to all a in [a0, a1) and b in [b0, b1); before `finish`.
  void add(int a0, int a1, int b0, int b1, int64_t amount) {
    a1 = a1 < size ? a1 : size;
    b1 = b1 < size ? b1 : size;
    if (a0 >= a1 || b0 >= b1 || amount == 0)
      return;
    if (cells.empty())
      cells.assign(static_cast<size_t>(size) * size, 0);
    at(a0, b0) += amount;
    if (b1 < size)
      at(a0, b1) -= amount;
    if (a1 < size)
      at(a1, b0) -= amount;
    if (a1 < size && b1 < size)
      at(a1, b1) += amount;
  }
  /// Adds to all stages with one of `units`, which ascend.
  void addToStagesWith(const std::vector<int> &units, int64_t amount) {
    int previous = -1;
    for (int unit : units) {
      // Those whose first one it is.
      add(previous + 1, unit + 1, unit + 1, size, amount);
      previous = unit;
    }
  }
  void finish() {
    for (size_t begin = 0; begin < cells.size(); begin += size) {
      int64_t *row = cells.data() + begin;
      std::partial_sum(row, row + size, row);
      for (int b = 0; b < size && begin > 0; ++b)
        row[b] += row[b - size];
    }
  }
  int64_t operator()(int a, int b) const {
    return cells.empty() ? 0 : cells[static_cast<size_t>(a) * size + b];
  }
  int units() const { return size - 1; }

private:
  int64_t &at(int a, int b) { return cells[static_cast<size_t>(a) * size + b]; }
  int size;
  std::vector<int64_t> cells; ///< empty: nothing was added
};

} // namespace dtc::plan
