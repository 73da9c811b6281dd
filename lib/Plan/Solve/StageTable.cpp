#include "dtc/Plan/Solve/StageTable.h"

#include <numeric>

namespace dtc::plan {

void StageTable::ByLength::add(int unit, int length, int64_t amount) {
  if (places.empty())
    places.assign(size + 1, -1);
  int &place = places[length];
  if (place < 0) {
    place = static_cast<int>(list.size());
    list.push_back({length, std::vector<int64_t>(size + 1)});
  }
  list[place].amounts[unit] += amount;
}

void StageTable::addToStagesWith(const std::vector<int> &units, int64_t amount, int shift) {
  if (amount == 0)
    return;
  for (size_t i = 0; i < units.size(); ++i) {
    with.add(units[i] + shift, 0, amount);
    if (i > 0)
      with.add(units[i - 1] + shift, units[i] - units[i - 1], -amount);
  }
}

void StageTable::addToStagesWithin(int first, int end, int64_t amount) {
  if (amount != 0 && first < end)
    within.add(first, end - first, amount);
}

void StageTable::addCopies(const StageTable &one, int distance, int copies) {
  for (ByLength StageTable::*lengths : {&StageTable::with, &StageTable::within})
    for (const Starts &starts : (one.*lengths).list)
      for (int unit = 0; unit < size; ++unit)
        for (int copy = 0; starts.amounts[unit] != 0 && copy < copies; ++copy)
          (this->*lengths).add(unit + copy * distance, starts.length, starts.amounts[unit]);
}

void StageTable::finish() {
  constexpr size_t few = 12;
  if (with.list.size() + within.list.size() > few)
    return findCells();
  for (ByLength *lengths : {&with, &within})
    for (Starts &starts : lengths->list)
      std::exclusive_scan(starts.amounts.begin(), starts.amounts.end(), starts.amounts.begin(),
                          int64_t{0});
}

/// To all a in [a0, a1) and b in [b0, b1), once what is in the cells before is summed up.
void StageTable::addCorners(int a0, int a1, int b0, int b1, int64_t amount) {
  auto add = [&](int a, int b, int64_t more) {
    if (a <= size && b <= size)
      cells[static_cast<size_t>(a) * (size + 1) + b] += more;
  };
  add(a0, b0, amount);
  add(a0, b1, -amount);
  add(a1, b0, -amount);
  add(a1, b1, amount);
}

void StageTable::findCells() {
  cells.assign(static_cast<size_t>(size + 1) * (size + 1), 0);
  for (int unit = 0; unit < size; ++unit) {
    for (const Starts &starts : with.list)
      if (int64_t amount = starts.amounts[unit])
        addCorners(0, unit + 1, unit + starts.length + 1, size + 1, amount);
    for (const Starts &starts : within.list)
      if (int64_t amount = starts.amounts[unit])
        addCorners(unit, size + 1, 0, unit + starts.length + 1, amount);
  }
  for (int a = 0; a <= size; ++a) {
    int64_t *row = cells.data() + static_cast<size_t>(a) * (size + 1);
    std::partial_sum(row, row + size + 1, row);
    for (int b = 0; b <= size && a > 0; ++b)
      row[b] += row[b - size - 1];
  }
  for (int a = 0; a <= size; ++a) // of empty stages
    for (int b = 0; b <= a; ++b)
      cells[static_cast<size_t>(a) * (size + 1) + b] = 0;
  with.list.clear();
  within.list.clear();
}

} // namespace dtc::plan
