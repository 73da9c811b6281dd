// Sums over all stages, against adding up what each stage has one by one.
#include "dtc/Plan/Solve/FlatMap.h"
#include "dtc/Plan/Solve/RangeMax.h"
#include "dtc/Plan/Solve/StageTable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace dtc::plan;

namespace {

struct Summand {
  std::vector<int> units; ///< empty: of stages within a run
  int first = 0, end = 0;
  int64_t amount = 0;

  int64_t in(int a, int b) const {
    bool counts = units.empty() ? first <= a && b <= end
                                : std::any_of(units.begin(), units.end(),
                                              [&](int unit) { return a <= unit && unit < b; });
    return counts && a < b ? amount : 0;
  }
  void addTo(StageTable &table) const {
    if (units.empty())
      table.addToStagesWithin(first, end, amount);
    else
      table.addToStagesWith(units, amount);
  }
};

/// Whose units are no further apart than `most`.
Summand summand(std::mt19937 &random, int units, int most) {
  auto below = [&](int end) { return static_cast<int>(random() % end); };
  Summand result;
  result.amount = 1 + below(1000);
  int first = below(units), end = std::min(units, first + 1 + below(most));
  if (random() % 2) {
    result.first = first;
    result.end = end;
  } else {
    for (int unit = first; unit < end; ++unit)
      if (unit == first || random() % 2)
        result.units.push_back(unit);
  }
  return result;
}

void expectSums(const StageTable &table, const std::vector<Summand> &summands, int units) {
  for (int a = 0; a <= units; ++a)
    for (int b = a; b <= units; ++b) {
      int64_t sum = 0;
      for (const Summand &each : summands)
        sum += each.in(a, b);
      ASSERT_EQ(table(a, b), sum) << a << " " << b;
    }
}

} // namespace

TEST(StageTable, AddsUpWhatStagesHave) {
  std::mt19937 random(1);
  for (int most : {1, 3, 20}) // with all that are far apart there are many lengths
    for (int count : {0, 1, 5, 60}) {
      constexpr int units = 20;
      StageTable table(units);
      std::vector<Summand> summands;
      for (int i = 0; i < count; ++i) {
        summands.push_back(summand(random, units, most));
        summands.back().addTo(table);
      }
      table.finish();
      expectSums(table, summands, units);
    }
}

TEST(StageTable, AddsCopies) {
  constexpr int units = 24, distance = 2, copies = 7;
  StageTable one(units), all(units);
  std::vector<Summand> summands;
  for (const Summand &each : {Summand{{3}, 0, 0, 5}, Summand{{3, 4, 7}, 0, 0, 7},
                              Summand{{}, 2, 5, 11}, Summand{{4, 5}, 0, 0, 13}}) {
    each.addTo(one);
    for (int copy = 0; copy < copies; ++copy) {
      Summand &shifted = summands.emplace_back(each);
      for (int &unit : shifted.units)
        unit += copy * distance;
      shifted.first += copy * distance;
      shifted.end += copy * distance;
    }
  }
  Summand other{{0, 23}, 0, 0, 17};
  other.addTo(all);
  summands.push_back(other);
  all.addCopies(one, distance, copies);
  all.addToStagesWith({1, 2}, 19, 3);
  summands.push_back({{4, 5}, 0, 0, 19});
  all.finish();
  expectSums(all, summands, units);
}

TEST(RangeMax, FindsTheGreatest) {
  std::mt19937 random(2);
  for (int size : {1, 2, 3, 8, 17}) {
    std::vector<int64_t> values(size);
    for (int64_t &value : values)
      value = static_cast<int64_t>(random() % 100) - 50;
    RangeMax most(values);
    for (int a = 0; a < size; ++a)
      for (int b = a + 1; b <= size; ++b)
        EXPECT_EQ(most(a, b), *std::max_element(values.begin() + a, values.begin() + b));
  }
}

TEST(FlatMap, KeepsEntriesWhereTheyAre) {
  std::mt19937_64 random(3);
  FlatMap<int64_t> map;
  std::map<int64_t, int64_t *> entries;
  for (int i = 0; i < 2000; ++i) {
    // Neighbours, and keys that differ in their high bits alone.
    auto key = static_cast<int64_t>(i % 2 ? random() >> 1 : (random() % 1000) << (i % 40));
    auto known = entries.find(key);
    ASSERT_EQ(map.find(key), known == entries.end() ? nullptr : known->second);
    if (known == entries.end()) {
      entries[key] = &map.add(key);
      *entries[key] = i;
    }
  }
  for (const auto &[key, entry] : entries)
    EXPECT_EQ(map.find(key), entry);
}
