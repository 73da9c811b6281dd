// Sums that a pipeline stage has, for all stages at once. A stage is a run of units [a, b). Each
// summand counts in those that have one of some units, or that lie within a run.
//
// Of units 2, 3 and 7 a stage has either none or neighbours among them, one more than it has pairs
// of neighbours. So a summand of theirs counts as often as it has units, less as often as it has
// pairs: 3 - 2 times in [1, 9), 2 - 1 times in [3, 9). Pairs of units that are equally far apart,
// and runs of equal length, are prefix sums over where they begin. There are few of them where
// layers are units. Where there are many, all stages' sums are found at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc::plan {

class StageTable {
public:
  explicit StageTable(int units = 0) : size(units), with(units), within(units) {}

  /// Adds to all stages with one of `units`, which ascend, each `shift` further; before `finish`.
  void addToStagesWith(const std::vector<int> &units, int64_t amount, int shift = 0);
  /// Adds to all stages [a, b) with first <= a and b <= end; before `finish`.
  void addToStagesWithin(int first, int end, int64_t amount);
  /// Adds what another table has, and as often again as there are more copies, each `distance`
  /// units after the one before it; both before `finish`.
  void addCopies(const StageTable &one, int distance, int copies);
  void finish();
  /// After it; of an empty stage, 0.
  int64_t operator()(int a, int b) const {
    if (!cells.empty())
      return cells[static_cast<size_t>(a) * (size + 1) + b];
    int64_t sum = 0;
    for (const Starts &starts : with.list)
      if (b - starts.length > a)
        sum += starts.amounts[b - starts.length] - starts.amounts[a];
    for (const Starts &starts : within.list)
      if (b - a <= starts.length && a < b)
        sum += starts.amounts[a + 1] - starts.amounts[b > starts.length ? b - starts.length : 0];
    return sum;
  }
  int units() const { return size; }

private:
  /// Amounts of what is equally long, from the first unit to the last of a pair, or to the end of a
  /// run. Before `finish` they are by where it begins. After it they are of all that begins before
  /// a unit.
  struct Starts {
    int length = 0;
    std::vector<int64_t> amounts;
  };
  struct ByLength {
    explicit ByLength(int units) : size(units) {}
    void add(int unit, int length, int64_t amount);
    int size;
    std::vector<Starts> list;
    std::vector<int> places; ///< in it, by length; -1: none
  };
  void addCorners(int a0, int a1, int b0, int b1, int64_t amount);
  void findCells();

  int size;
  ByLength with, within;
  std::vector<int64_t> cells; ///< by a and b; empty: there are few lengths
};

} // namespace dtc::plan
