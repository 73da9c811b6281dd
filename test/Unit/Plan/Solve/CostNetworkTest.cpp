#include "dtc/Plan/Solve/CostNetwork.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>

using dtc::plan::CostNetwork;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct RandomNetwork {
  CostNetwork network;
  std::vector<int> domains;

  /// Random variables, and terms of one to four variables over random classes;
  /// some entries are forbidden.
  RandomNetwork(unsigned seed, double forbidden) {
    std::mt19937 random(seed);
    auto below = [&](int n) { return static_cast<int>(random() % n); };
    int count = 2 + below(6);
    for (int i = 0; i < count; ++i) {
      domains.push_back(1 + below(4));
      network.addVariable(domains.back());
    }
    int terms = 1 + below(2 * count);
    for (int t = 0; t < terms; ++t) {
      std::vector<int> scope;
      for (int i = 0; i < count && scope.size() < 4; ++i)
        if (below(3) == 0)
          scope.push_back(i);
      std::shuffle(scope.begin(), scope.end(), random);
      if (scope.empty())
        continue;
      std::vector<std::vector<int>> classes;
      size_t size = 1;
      for (int variable : scope) {
        // Classes without gaps. The first choice's may be any.
        int distinct = 1 + below(domains[variable]);
        std::vector<int> map;
        for (int choice = 0; choice < domains[variable]; ++choice)
          map.push_back(choice < distinct ? choice : below(distinct));
        std::shuffle(map.begin(), map.end(), random);
        classes.push_back(map);
        size *= distinct;
      }
      std::vector<double> costs;
      for (size_t i = 0; i < size; ++i)
        costs.push_back(below(1000) < forbidden * 1000 ? kInfinity : below(100));
      network.addTerm(scope, classes, costs);
    }
  }

  double bruteForce() const {
    std::vector<int> choices(domains.size(), 0);
    double best = kInfinity;
    while (true) {
      best = std::min(best, network.cost(choices));
      size_t i = 0;
      while (i < domains.size() && ++choices[i] == domains[i])
        choices[i++] = 0;
      if (i == domains.size())
        return best;
    }
  }
};

} // namespace

TEST(CostNetwork, FindsTheOptimumOfRandomNetworks) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomNetwork random(seed, 0);
    double optimum = random.bruteForce();
    CostNetwork::Solution solution = random.network.solve();
    EXPECT_EQ(solution.cost, optimum) << "seed " << seed;
    EXPECT_NEAR(solution.bound, optimum, 1e-9) << "seed " << seed;
    EXPECT_EQ(random.network.cost(solution.choices), solution.cost);
  }
}

TEST(CostNetwork, AvoidsForbiddenCombinations) {
  int feasible = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomNetwork random(seed, 0.3);
    double optimum = random.bruteForce();
    CostNetwork::Solution solution = random.network.solve();
    EXPECT_EQ(solution.cost, optimum) << "seed " << seed;
    feasible += std::isfinite(optimum);
  }
  EXPECT_GT(feasible, 50);
  EXPECT_LT(feasible, 350);
}

TEST(CostNetwork, BoundsTheOptimumWhereTablesAreLimited) {
  int inexact = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomNetwork random(seed, 0);
    double optimum = random.bruteForce();
    CostNetwork::Solution solution = random.network.solve(/*tableLimit=*/2);
    EXPECT_LE(solution.bound, optimum + 1e-9) << "seed " << seed;
    EXPECT_GE(solution.cost, optimum) << "seed " << seed;
    inexact += solution.bound < optimum - 1e-9;
  }
  EXPECT_GT(inexact, 0);
}

TEST(CostNetwork, ChainOfEqualLinks) {
  // x_i in {0,1,2}; neighbours that differ cost 1, being 0 at the start and 2
  // at the end is wished for by 5.
  CostNetwork network;
  std::vector<int> own = {0, 1, 2};
  constexpr int length = 500;
  for (int i = 0; i < length; ++i)
    network.addVariable(3);
  network.addTerm({0}, {own}, {0, 5, 5});
  network.addTerm({length - 1}, {own}, {5, 5, 0});
  for (int i = 0; i + 1 < length; ++i)
    network.addTerm({i, i + 1}, {own, own}, {0, 1, 1, 1, 0, 1, 1, 1, 0});
  CostNetwork::Solution solution = network.solve();
  EXPECT_EQ(solution.cost, 1);
  EXPECT_EQ(solution.choices.front(), 0);
  EXPECT_EQ(solution.choices.back(), 2);
}

//===-- grids, which need large tables ------------------------------------===//

namespace {

constexpr int kGridChoices = 4;

/// Adds a square grid. `pair(a, b)` is what neighbours cost. Returns the first variable.
template <typename Pair> int addGrid(CostNetwork &network, int width, Pair pair) {
  const int begin = network.addVariable(kGridChoices);
  for (int i = 1; i < width * width; ++i)
    network.addVariable(kGridChoices);
  auto addPair = [&](int first, int second) {
    std::vector<double> costs;
    for (int a = 0; a < kGridChoices; ++a)
      for (int b = 0; b < kGridChoices; ++b)
        costs.push_back(pair(a, b));
    network.addTerm({first, second}, {{0, 1, 2, 3}, {0, 1, 2, 3}}, std::move(costs));
  };
  for (int row = 0; row < width; ++row)
    for (int column = 0; column < width; ++column) {
      int own = begin + row * width + column;
      if (column + 1 < width)
        addPair(own, own + 1);
      if (row + 1 < width)
        addPair(own, own + width);
    }
  return begin;
}

template <typename Pair> CostNetwork grid(int width, Pair pair) {
  CostNetwork network;
  addGrid(network, width, pair);
  return network;
}

/// Grids that are alike, each joined to the next by its corner.
CostNetwork equalGrids(int count, int width) {
  CostNetwork network;
  for (int i = 0; i < count; ++i) {
    std::mt19937 random(2);
    const int begin = addGrid(network, width, [&](int, int) { return double(random() % 1000); });
    if (i > 0)
      network.addTerm({begin - 1, begin}, {{0, 1, 2, 3}, {0, 1, 2, 3}},
                      {5, 3, 0, 8, 2, 7, 6, 1, 4, 9, 3, 2, 8, 0, 5, 6});
  }
  return network;
}

} // namespace

TEST(CostNetwork, MakesNoLargeTablesWhereSmallOnesProveTheOptimum) {
  CostNetwork network = grid(9, [](int a, int b) { return std::abs(a - b); });
  network.addTerm({0}, {{0, 1, 2, 3}}, {7, 5, 3, 6});
  CostNetwork::Solution solution = network.solve();
  EXPECT_EQ(solution.cost, 3);
  EXPECT_EQ(solution.bound, 3);
  // With one table for each variable it is 13 million.
  EXPECT_LT(network.entries(), 100'000u);
}

TEST(CostNetwork, MakesLargerTablesWhereSmallOnesProveNothing) {
  std::mt19937 random(1);
  CostNetwork network = grid(9, [&](int, int) { return double(random() % 1000); });
  CostNetwork small = network;
  constexpr int64_t limit = 1 << 11;
  CostNetwork::Solution bounded = small.solve(limit), solution = network.solve();
  EXPECT_LT(bounded.bound, bounded.cost - 1);
  EXPECT_LE(solution.cost, bounded.cost);
  EXPECT_NEAR(solution.bound, solution.cost, 1e-6);
  // First choices are left out that cost too much in any case. With all of them it is 9 million.
  EXPECT_LT(network.entries(), 200'000u);
}

TEST(CostNetwork, SearchesEqualBlocksOnce) {
  constexpr int width = 7;
  CostNetwork few = equalGrids(20, width), many = equalGrids(60, width), small = few;
  constexpr int64_t limit = 1 << 11;
  CostNetwork::Solution bounded = small.solve(limit), solution = few.solve();
  EXPECT_LT(bounded.bound, bounded.cost - 1);
  EXPECT_NEAR(solution.bound, solution.cost, 1e-6);
  many.solve();
  EXPECT_EQ(many.entries(), few.entries());
}

TEST(CostNetwork, BoundsTheOptimumWhateverChoicesAreLeftOut) {
  int proven = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    CostNetwork network =
        grid(4, [&](int, int) { return random() % 8 == 0 ? kInfinity : double(random() % 100); });
    CostNetwork exact = network;
    const double optimum = exact.solve().cost;
    CostNetwork::Solution solution = network.solve(/*tableLimit=*/8);
    EXPECT_LE(solution.bound, optimum + 1e-9) << "seed " << seed;
    EXPECT_GE(solution.cost, optimum) << "seed " << seed;
    EXPECT_EQ(network.cost(solution.choices), solution.cost);
    proven += solution.bound > optimum - 1e-9;
  }
  EXPECT_GT(proven, 20);
  EXPECT_LT(proven, 200);
}

//===-- chains of equal blocks --------------------------------------------===//

namespace {

/// Blocks of `width` variables between a first and a last part; a global variable
/// ties those two, as a tied embedding does. Costs of all blocks but the first two
/// and the last are the same.
struct RandomChain {
  CostNetwork network;
  CostNetwork::Chain chain;

  RandomChain(unsigned seed, int blocks, int repeated, int copies, int width = 3) {
    chain.repeated = repeated;
    chain.copies = copies;
    auto add = [&](int home, int domain) {
      chain.home.push_back(home);
      return network.addVariable(domain);
    };
    int global = add(-1, 3);
    std::vector<std::vector<int>> variables(blocks);
    for (int block = 0; block < blocks; ++block)
      for (int i = 0; i < width; ++i)
        variables[block].push_back(add(block, 2 + i));
    for (int block = 0; block < blocks; ++block) {
      bool isInner = block >= 2 && block + 1 < blocks;
      // The same costs for all inner blocks.
      std::mt19937 random(seed * 7 + (isInner ? 2 : block == 0 ? 0 : block == 1 ? 1 : 3));
      const std::vector<int> &own = variables[block];
      for (int i = 0; i + 1 < width; ++i)
        addTerm({own[i], own[i + 1]}, {2 + i, 3 + i}, random);
      if (block > 0)
        addTerm({variables[block - 1][width - 1], own[0]}, {width + 1, 2}, random);
      if (block > 0)
        addTerm({variables[block - 1][width - 1], own[1]}, {width + 1, 3}, random);
      if (block == 0 || block + 1 == blocks)
        addTerm({global, own[1]}, {3, 3}, random);
    }
  }

private:
  void addTerm(const std::vector<int> &scope, const std::vector<int> &sizes,
               std::mt19937 &random) {
    std::vector<std::vector<int>> classes;
    size_t entries = 1;
    for (int size : sizes) {
      classes.emplace_back();
      for (int i = 0; i < size; ++i)
        classes.back().push_back(i);
      entries *= size;
    }
    std::vector<double> costs;
    for (size_t i = 0; i < entries; ++i)
      costs.push_back(double(random() % 100));
    network.addTerm(scope, classes, costs);
  }
};

} // namespace

TEST(CostNetwork, ChainsCostWhatAllTheirBlocksCost) {
  int alike = 0, different = 0;
  for (unsigned seed = 0; seed < 60; ++seed)
    for (int copies : {1, 2, 9}) {
      // Six blocks, the fourth of which stands for `copies`.
      RandomChain folded(seed, 6, 3, copies), whole(seed, 5 + copies, 3, 1);
      CostNetwork::Solution expected = whole.network.solve();
      auto found = folded.network.solveChain(folded.chain);
      if (!found) {
        ++different;
        continue;
      }
      ++alike;
      EXPECT_DOUBLE_EQ(found->cost, expected.cost) << seed;
      EXPECT_DOUBLE_EQ(found->bound, expected.cost) << seed;
      // Written out, the assignment costs as much.
      std::vector<int> choices = found->choices;
      auto third = choices.begin() + 1 + 3 * 3;
      std::vector<int> block(third, third + 3);
      for (int i = 1; i < copies; ++i)
        choices.insert(choices.begin() + 1 + 3 * 3, block.begin(), block.end());
      EXPECT_DOUBLE_EQ(whole.network.cost(choices), expected.cost) << seed;
    }
  EXPECT_GE(alike, 20);
  EXPECT_GE(different, 10) << "chains that alternate are left to the whole network";
}

TEST(CostNetwork, ChainsOfBlocksThatDifferAreRefused) {
  unsigned seed = 0;
  auto isSolved = [](const RandomChain &made) {
    return made.network.solveChain(made.chain).has_value();
  };
  while (seed < 60 && !isSolved(RandomChain(seed, 6, 3, 4)))
    ++seed;
  ASSERT_LT(seed, 60u);
  RandomChain other(seed, 6, 3, 4);
  other.network.addTerm({1 + 3 * 3}, {{0, 1}}, {5, 0});
  EXPECT_FALSE(isSolved(other));
  RandomChain tied(seed, 6, 3, 4); // the global variable and a block in the middle
  tied.network.addTerm({0, 1 + 3 * 3}, {{0, 1, 2}, {0, 1}}, {0, 1, 2, 3, 4, 5});
  EXPECT_FALSE(isSolved(tied));
}
