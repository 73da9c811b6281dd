// Cutting a model into stages, against all ways of cutting it.
#include "dtc/Plan/Solve/StageCuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace dtc::plan;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Units of random seconds and bytes; a stage's seconds have a share that
/// depends on where it is, and early stages keep more microbatches.
struct Units {
  explicit Units(unsigned seed) : random(seed) {
    std::uniform_real_distribution<double> amount(0.1, 1);
    for (int i = 0; i < 9; ++i) {
      seconds.push_back(amount(random));
      bytes.push_back(amount(random));
    }
    memory = std::uniform_real_distribution<double>(2, 12)(random);
  }
  double operator()(int a, int b, int stage, int stages) const {
    double time = 0.05 * stage, size = 0;
    for (int i = a; i < b; ++i) {
      time += seconds[i];
      size += bytes[i];
    }
    return size * (stages - stage) <= memory ? time : kInfinity;
  }
  std::mt19937 random;
  std::vector<double> seconds, bytes;
  double memory = 0;
};

double best(const Units &units, int begin, int stage, int stages) {
  if (stage == stages)
    return begin == 9 ? 0 : kInfinity;
  double least = kInfinity;
  for (int end = begin + 1; end <= 9; ++end)
    least = std::min(least, std::max(units(begin, end, stage, stages),
                                     best(units, end, stage + 1, stages)));
  return least;
}

} // namespace

TEST(StageCuts, AreTheBestOfAll) {
  int possible = 0, impossible = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Units units(seed);
    int stages = 1 + static_cast<int>(seed % 5);
    // Of a stage beyond the limit, less than it takes.
    auto price = [&](int a, int b, int stage, double limit) {
      double seconds = units(a, b, stage, stages);
      return seconds > limit ? std::nextafter(limit, kInfinity) : seconds;
    };
    auto cuts = cutStages(9, stages, price);
    double least = best(units, 0, 0, stages);
    ASSERT_EQ(cuts.has_value(), least < kInfinity) << "seed " << seed;
    ++(cuts ? possible : impossible);
    EXPECT_EQ(canCut(9, stages, price), cuts.has_value()) << "seed " << seed;
    EXPECT_EQ(cutStages(9, stages, price, least), cuts) << "seed " << seed;
    EXPECT_FALSE(cutStages(9, stages, price, 0.999 * least)) << "seed " << seed;
    if (!cuts)
      continue;
    ASSERT_EQ(cuts->size(), size_t(stages) + 1);
    EXPECT_EQ(cuts->front(), 0);
    EXPECT_EQ(cuts->back(), 9);
    double most = 0;
    for (int stage = 0; stage < stages; ++stage)
      most = std::max(most, price((*cuts)[stage], (*cuts)[stage + 1], stage, kInfinity));
    EXPECT_EQ(most, least) << "seed " << seed;
  }
  EXPECT_GT(possible, 50);
  EXPECT_GT(impossible, 10);
}

TEST(StageCuts, GiveALargeHeadFewerLayers) {
  // Eight layers and a head that takes as long as two.
  auto cuts = cutStages(9, 2, [](int a, int b, int, double) { return double(b - a + (b == 9)); });
  EXPECT_EQ(*cuts, (std::vector<int>{0, 5, 9}));
}

TEST(StageCuts, MayBeEven) {
  // An embedding, layers of a unit each, and a head.
  auto layers = [](int count) {
    std::vector<int> units(count);
    std::iota(units.begin(), units.end(), 1);
    return units;
  };
  EXPECT_EQ(*evenCuts(layers(8), 10, 4), (std::vector<int>{0, 3, 5, 7, 10}));
  // The ends count as layers where only then all are equal.
  EXPECT_EQ(*evenCuts(layers(10), 12, 4), (std::vector<int>{0, 3, 6, 9, 12}));
  EXPECT_EQ(evenCuts(layers(70), 72, 12)->at(1), 6);
  EXPECT_FALSE(evenCuts(layers(9), 11, 4));
  EXPECT_FALSE(evenCuts(layers(2), 4, 4)) << "ends without a layer";
  EXPECT_FALSE(evenCuts({}, 3, 2));
  for (int count = 0; count < 30; ++count)
    for (int stages = 1; stages < 16; ++stages)
      EXPECT_EQ(canBeEven(count, stages), evenCuts(layers(count), count + 2, stages).has_value())
          << count << " " << stages;
  EXPECT_FALSE(evenCuts(layers(8), 10, 1)) << "nothing to cut";
}

TEST(StageCuts, NeedAUnitForEachStage) {
  auto price = [](int, int, int, double) { return 1.0; };
  EXPECT_FALSE(cutStages(3, 4, price));
  EXPECT_FALSE(cutStages(3, 0, price));
  EXPECT_EQ(*cutStages(3, 3, price), (std::vector<int>{0, 1, 2, 3}));
}

TEST(StageCuts, LookAtLittleMoreInADeeperModel) {
  // An embedding, equal layers, and a head that takes as long as two.
  auto looks = [](int layers) {
    int count = 0;
    auto cuts = cutStages(layers + 2, 8, [&](int a, int b, int, double) {
      ++count;
      return b - a - 0.5 * (a == 0) + (b == layers + 2);
    });
    EXPECT_TRUE(cuts) << layers;
    return count;
  };
  int few = looks(32);
  EXPECT_LT(looks(128), 1.5 * few);
  EXPECT_LT(looks(1024), 2 * few);
}

TEST(StageCuts, KeepTheLimitWhereLongerStagesCostLess) {
  auto price = [](int a, int b, int, double) {
    return b - a > 4 ? kInfinity : (b - a) * (1 + (a * 7919 + b * 104729) % 17 / 17.0);
  };
  int found = 0;
  for (double limit : {3.0, 5.0, kInfinity})
    for (int units : {8, 12, 15})
      for (int stages : {3, 4, 5}) {
        auto cuts = cutStages(units, stages, price, limit);
        EXPECT_EQ(cuts.has_value(), canCut(units, stages, price, limit))
            << units << " " << stages << " " << limit;
        if (!cuts)
          continue;
        ++found;
        ASSERT_EQ(cuts->size(), size_t(stages) + 1);
        EXPECT_EQ(cuts->back(), units);
        for (int stage = 0; stage < stages; ++stage) {
          EXPECT_LT((*cuts)[stage], (*cuts)[stage + 1]);
          EXPECT_LE(price((*cuts)[stage], (*cuts)[stage + 1], stage, kInfinity), std::min(limit, 1e9));
        }
      }
  EXPECT_GT(found, 5);
}
