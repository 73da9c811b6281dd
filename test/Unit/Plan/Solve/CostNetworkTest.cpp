#include "dtc/Plan/Solve/CostNetwork.h"

#include <gtest/gtest.h>

#include <cmath>
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
        // Classes without gaps, in order of first appearance.
        int distinct = 1 + below(domains[variable]);
        std::vector<int> map;
        for (int choice = 0; choice < domains[variable]; ++choice)
          map.push_back(choice < distinct ? choice : below(distinct));
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

//===-- frontiers ---------------------------------------------------------===//

using Held = CostNetwork::Held;

static std::vector<std::vector<Held>> randomHeld(const std::vector<int> &domains, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<Held>> held;
  for (int domain : domains) {
    held.emplace_back();
    for (int i = 0; i < domain; ++i)
      held.back().push_back({double(random() % 20), double(random() % 20)});
  }
  return held;
}

/// The points than which no other is at most as large in everything.
static std::set<std::array<double, 3>> undominated(const std::set<std::array<double, 3>> &all) {
  std::set<std::array<double, 3>> best;
  for (const auto &point : all)
    if (std::none_of(all.begin(), all.end(), [&](const auto &other) {
          return other != point && other[0] <= point[0] && other[1] <= point[1] &&
                 other[2] <= point[2];
        }))
      best.insert(point);
  return best;
}

/// Of all assignments those than which none costs less and holds no more.
static std::set<std::array<double, 3>> bruteFrontier(const RandomNetwork &random,
                                                     const std::vector<std::vector<Held>> &held) {
  std::set<std::array<double, 3>> all;
  std::vector<int> choices(random.domains.size(), 0);
  for (size_t i = 0; i < choices.size();) {
    std::array<double, 3> point = {random.network.cost(choices), 0, 0};
    for (size_t v = 0; v < choices.size(); ++v)
      for (int k : {0, 1})
        point[k + 1] += held[v][choices[v]][k];
    if (std::isfinite(point[0]))
      all.insert(point);
    for (i = 0; i < choices.size() && ++choices[i] == random.domains[i]; ++i)
      choices[i] = 0;
  }
  return undominated(all);
}

TEST(CostNetwork, FindsTheFrontierOfRandomNetworks) {
  size_t most = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomNetwork random(seed, seed % 2 ? 0.2 : 0);
    auto held = randomHeld(random.domains, seed);
    auto found = random.network.frontier(held, {1 << 10, 1 << 12});
    ASSERT_TRUE(found && found->isExact());
    std::set<std::array<double, 3>> points;
    for (const CostNetwork::Point &point : found->points) {
      EXPECT_EQ(random.network.cost(point.choices), point.cost) << seed;
      Held sum{};
      for (size_t v = 0; v < point.choices.size(); ++v)
        for (int k : {0, 1})
          sum[k] += held[v][point.choices[v]][k];
      EXPECT_EQ(sum, point.held) << seed;
      points.insert({point.cost, point.held[0], point.held[1]});
    }
    EXPECT_EQ(points, bruteFrontier(random, held)) << seed;
    most = std::max(most, points.size());
  }
  EXPECT_GT(most, 50u);
}

static std::set<std::array<double, 3>> amounts(const CostNetwork::Frontier &frontier) {
  std::set<std::array<double, 3>> result;
  for (const CostNetwork::Point &point : frontier.points)
    result.insert({point.cost, point.held[0], point.held[1]});
  return result;
}

/// Few points of each set keep all three ends, and what is between as well as they say.
TEST(CostNetwork, BoundsFrontiers) {
  int inexact = 0, bounded = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomNetwork random(seed, 0);
    auto held = randomHeld(random.domains, seed);
    std::set<std::array<double, 3>> all = bruteFrontier(random, held);
    for (size_t most : {3, 12, 48}) {
      auto few = random.network.frontier(held, {1 << 10, most});
      ASSERT_TRUE(few);
      ASSERT_LE(few->points.size(), most);
      std::set<std::array<double, 3>> kept = amounts(*few);
      ASSERT_TRUE(!few->isExact() || kept == all) << seed;
      for (size_t end = 0; end < 3; ++end) {
        auto less = [=](const auto &a, const auto &b) { return a[end] < b[end]; };
        ASSERT_EQ((*std::min_element(kept.begin(), kept.end(), less))[end],
                  (*std::min_element(all.begin(), all.end(), less))[end])
            << seed;
      }
      for (const auto &point : all)
        ASSERT_TRUE(std::any_of(kept.begin(), kept.end(), [&](const auto &other) {
          return other[0] <= point[0] + few->slack && other[1] <= point[1] &&
                 other[2] <= point[2];
        }) || few->slack == kInfinity)
            << seed;
      inexact += !few->isExact();
      bounded += !few->isExact() && few->slack < kInfinity;
    }
  }
  EXPECT_GT(inexact, 300);
  EXPECT_GT(bounded, 15);
}

TEST(CostNetwork, RefusesFrontiersOfLargeTables) {
  CostNetwork network;
  std::vector<int> own = {0, 1, 2};
  for (int i = 0; i < 3; ++i)
    network.addVariable(3);
  network.addTerm({0, 1, 2}, {own, own, own}, std::vector<double>(27, 1));
  std::vector<std::vector<Held>> held(3, std::vector<Held>(3, Held{1, 1}));
  EXPECT_FALSE(network.frontier(held, {8, 64}));
  EXPECT_TRUE(network.frontier(held, {9, 64}));
}

/// More combinations of points meet in one variable than 64 bits number.
TEST(CostNetwork, FindsFrontiersOfVariablesWithManyNeighbours) {
  constexpr int leaves = 25, ways = 10;
  CostNetwork network;
  std::vector<std::vector<Held>> held(1, std::vector<Held>(2));
  std::vector<int> own(ways);
  network.addVariable(2);
  for (int way = 0; way < ways; ++way)
    own[way] = way;
  for (int leaf = 1; leaf <= leaves; ++leaf) {
    network.addVariable(ways);
    held.emplace_back();
    std::vector<double> costs;
    for (int way = 0; way < ways; ++way)
      held.back().push_back({double(ways - 1 - way), 0});
    for (int center : {0, 1})
      for (int way = 0; way < ways; ++way)
        costs.push_back(way + center);
    network.addTerm({0, leaf}, {{0, 1}, own}, costs);
  }
  auto found = network.frontier(held, {1 << 10, 1 << 10});
  ASSERT_TRUE(found && found->isExact());
  // What one more costs, one less is held of.
  ASSERT_EQ(found->points.size(), size_t(leaves * (ways - 1) + 1));
  for (size_t i = 0; i < found->points.size(); ++i) {
    const CostNetwork::Point &point = found->points[i];
    EXPECT_EQ(point.cost, double(i));
    EXPECT_EQ(point.held, (Held{double(leaves * (ways - 1)) - double(i), 0}));
    EXPECT_EQ(network.cost(point.choices), point.cost);
  }
}

TEST(CostNetwork, RefusesFrontiersOfTooManySums) {
  RandomNetwork random(4, 0);
  auto held = randomHeld(random.domains, 4);
  EXPECT_TRUE(random.network.frontier(held, {1 << 10, 1 << 12}));
  EXPECT_FALSE(random.network.frontier(held, {1 << 10, 1 << 12, 8}));
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

/// Of all assignments of a chain of two variables a block in which all but the first two and the
/// last are alike, the second as far as they share it, those than which none is better.
static std::set<std::array<double, 3>> bruteFrontier(const RandomChain &whole, int blocks,
                                                     const std::vector<std::vector<Held>> &held) {
  std::set<std::array<double, 3>> all;
  // The global variable; of the first block, the second (but what is shared), those that are
  // alike and the last, both variables.
  const std::vector<int> domains = {3, 2, 3, 2, 2, 3, 2, 3};
  std::vector<int> free(domains.size(), 0);
  for (size_t i = 0; i < free.size();) {
    std::vector<int> choices = {free[0], free[1], free[2], free[3], free[5]};
    for (int block = 2; block + 1 < blocks; ++block)
      choices.insert(choices.end(), {free[4], free[5]});
    choices.insert(choices.end(), {free[6], free[7]});
    std::array<double, 3> point = {whole.network.cost(choices), 0, 0};
    for (size_t variable = 1; variable < choices.size(); ++variable)
      for (int k : {0, 1})
        point[k + 1] += held[1 - variable % 2][choices[variable]][k];
    all.insert(point);
    for (i = 0; i < free.size() && ++free[i] == domains[i]; ++i)
      free[i] = 0;
  }
  return undominated(all);
}

TEST(CostNetwork, FrontiersOfChainsAreOfAllTheirBlocks) {
  size_t compared = 0;
  for (unsigned seed = 0; seed < 20; ++seed)
    for (int copies : {1, 3}) {
      RandomChain folded(seed, 6, 3, copies, 2), whole(seed, 5 + copies, 3, 1, 2);
      std::vector<std::vector<Held>> ofBlock = randomHeld({2, 3}, seed);
      std::vector<std::vector<Held>> held = {std::vector<Held>(3)};
      for (int block = 0; block < 6; ++block)
        held.insert(held.end(), ofBlock.begin(), ofBlock.end());
      auto found = folded.network.frontierOfChain(folded.chain, held, {1 << 10, 1 << 12});
      ASSERT_TRUE(found && found->isExact());
      EXPECT_EQ(amounts(*found), bruteFrontier(whole, 5 + copies, ofBlock)) << seed;
      for (const CostNetwork::Point &point : found->points) {
        // Variables of the whole: the global one, then two of each block.
        std::vector<int> all = {point.choices[0]};
        for (int block = 0; block < 5 + copies; ++block)
          for (int i : {0, 1})
            all.push_back(
                point.choices[1 + 2 * (block < 3 ? block : std::max(3, block - copies + 1)) + i]);
        EXPECT_EQ(whole.network.cost(all), point.cost) << seed;
        ++compared;
      }
      auto best = folded.network.solveChain(folded.chain);
      if (best)
        EXPECT_EQ(found->points.front().cost, best->cost) << seed;
      else
        EXPECT_GT(found->points.front().cost, whole.network.solve().cost) << seed;
    }
  EXPECT_GT(compared, 200u);
}
