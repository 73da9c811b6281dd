#include "dtc/Sharding/Ring.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

static const Mesh mesh{{{"dp", "dp", 2}, {"tp", "tp", 4}}};
static constexpr AxisId dp = 0, tp = 1;

/// x[b,k] w[k,n] -> y[b,n]
static ShardingRule matmul() {
  RuleBuilder builder(2, 1);
  FactorId b = builder.factor(8), k = builder.factor(16, FactorKind::Reduction),
           n = builder.factor(32);
  builder.operandDim(0, b).operandDim(0, k).operandDim(1, k).operandDim(1, n);
  builder.resultDim(0, b).resultDim(0, n).linear({0}).linear({1});
  return builder.build();
}

TEST(Rule, Prints) {
  EXPECT_EQ(matmul().str(), "([a,b],[b,c])->([a,c]) {a=8,b=16,c=32} reduce{b} linear{{0},{1}}");
  EXPECT_EQ(RuleBuilder::reshape({4, 1, 6}, {24}).str(),
            "([a,1,b])->([(a b)]) {a=4,b=6} linear{{0}}");
}

TEST(Rule, SplitReductionLeavesPartialResults) {
  ShardingRule rule = matmul();
  OpSharding sharding{{{dp}, {tp}, {}}, {}};
  EXPECT_EQ(check(rule, sharding, mesh), "");
  EXPECT_EQ(operandSharding(rule, sharding, 0), (TensorSharding{{{dp}, {tp}}, {}}));
  EXPECT_EQ(operandSharding(rule, sharding, 1), (TensorSharding{{{tp}, {}}, {}}));
  EXPECT_EQ(resultSharding(rule, sharding, 0),
            (TensorSharding{{{dp}, {}}, {{tp, ReduceKind::Sum}}}));
}

TEST(Rule, PendingPassesThroughItsSet) {
  ShardingRule rule = matmul();
  OpSharding sharding{{{dp}, {}, {}}, {{tp, 1}}};
  EXPECT_EQ(check(rule, sharding, mesh), "");
  EXPECT_TRUE(operandSharding(rule, sharding, 0).partial.empty());
  EXPECT_TRUE(operandSharding(rule, sharding, 1).isPartial(tp));
  EXPECT_TRUE(resultSharding(rule, sharding, 0).isPartial(tp));
}

/// x[b,h] -> y[b,h], scale gradient [h]: b is parallel, absent from the second.
TEST(Rule, ParallelFactorLeavesResultsWithoutItPartial) {
  RuleBuilder builder(1, 2);
  FactorId b = builder.factor(8), h = builder.factor(16, FactorKind::Rounds);
  builder.operandDim(0, b).operandDim(0, h).resultDim(0, b).resultDim(0, h).resultDim(1, h);
  ShardingRule rule = builder.build();
  OpSharding sharding{{{dp}, {}}, {}};
  EXPECT_TRUE(resultSharding(rule, sharding, 0).partial.empty());
  EXPECT_EQ(resultSharding(rule, sharding, 1), (TensorSharding{{{}}, {{dp, ReduceKind::Sum}}}));
}

TEST(Rule, RoundsAndResultOnlyFactorsLeaveResultsComplete) {
  RuleBuilder builder(1, 2); // x[k] -> maximum [], iota [n]
  FactorId k = builder.factor(8, FactorKind::Rounds), n = builder.factor(8);
  builder.operandDim(0, k).resultDim(1, n);
  ShardingRule rule = builder.build();
  OpSharding sharding{{{dp}, {tp}}, {}};
  EXPECT_TRUE(needsRounds(rule, sharding));
  EXPECT_FALSE(needsRounds(rule, OpSharding{{{}, {tp}}, {}}));
  EXPECT_TRUE(resultSharding(rule, sharding, 0).partial.empty());
  EXPECT_TRUE(resultSharding(rule, sharding, 1).partial.empty());
}

/// q[s,e] k[t,e] -> o[s,e], where keys are normalized over.
TEST(Rule, KeysGoRoundTheRanksThatSplitQueries) {
  RuleBuilder builder(2, 1);
  FactorId s = builder.factor(8), t = builder.factor(16, FactorKind::Rounds), e = builder.factor(4);
  builder.operandDim(0, s).operandDim(0, e).operandDim(1, t).operandDim(1, e);
  ShardingRule rule = builder.resultDim(0, s).resultDim(0, e).build();
  OpSharding ring{{{dp}, {dp}, {}}, {}};
  EXPECT_EQ(check(rule, ring, mesh), "");
  ASSERT_TRUE(ringOf(rule, ring));
  EXPECT_EQ(ringOf(rule, ring)->stays, s);
  EXPECT_EQ(ringOf(rule, ring)->travels, t);
  EXPECT_EQ(ringOf(rule, ring)->axes, AxisList{dp});
  EXPECT_EQ(operandSharding(rule, ring, 0), (TensorSharding{{{dp}, {}}, {}}));
  EXPECT_EQ(operandSharding(rule, ring, 1), (TensorSharding{{{dp}, {}}, {}}));
  EXPECT_EQ(resultSharding(rule, ring, 0), (TensorSharding{{{dp}, {}}, {}}));
  EXPECT_FALSE(ringOf(rule, {{{dp}, {tp}, {}}, {}}));
  rule.results.push_back(rule.operands[1]); // a gradient of the keys, with a term of each query
  EXPECT_EQ(resultSharding(rule, ring, 1), (TensorSharding{{{dp}, {}}, {}}));
  EXPECT_TRUE(resultSharding(rule, {{{dp}, {}, {}}, {}}, 1).isPartial(dp));
  // Parts of both must be the same ranks', no tensor may have both, and one factor is of rounds.
  EXPECT_EQ(check(rule, {{{dp, tp}, {dp}, {}}, {}}, mesh), "axis is used twice: dp");
  EXPECT_EQ(check(rule, {{{}, {tp}, {tp}}, {}}, mesh), "axis is used twice: tp");
  EXPECT_EQ(check(rule, {{{dp}, {dp}, {dp}}, {}}, mesh), "axis is used twice: dp");
  rule.factors[t].kind = FactorKind::Parallel;
  EXPECT_EQ(check(rule, ring, mesh), "axis is used twice: dp");
}

TEST(Rule, ChecksRefuse) {
  ShardingRule rule = matmul();
  EXPECT_EQ(check(rule, {{{dp}, {}}, {}}, mesh), "sharding has 2 factors, the rule 3");
  EXPECT_EQ(check(rule, {{{dp}, {dp}, {}}, {}}, mesh), "axis is used twice: dp");
  EXPECT_EQ(check(rule, {{{dp}, {}, {}}, {{dp, 0}}}, mesh), "axis is used twice: dp");
  EXPECT_EQ(check(rule, {{{7}, {}, {}}, {}}, mesh), "axis is not in the mesh: 7");
  EXPECT_EQ(check(rule, {{{}, {}, {}}, {{dp, 2}}}, mesh), "no such linear set: 2");
  Mesh odd{{{"a", "a", 3}}};
  EXPECT_EQ(check(rule, {{{0}, {}, {}}, {}}, odd), "factor a of size 8 is not divisible by 3");
  RuleBuilder whole(1, 1);
  FactorId w = whole.factor(8, FactorKind::Whole);
  whole.operandDim(0, w).resultDim(0, w);
  EXPECT_EQ(check(whole.build(), {{{dp}}, {}}, mesh), "factor may not be split: a");
}

TEST(Rule, CompoundDimensionsAreSplitMajorFirst) {
  ShardingRule rule = RuleBuilder::reshape({2, 16}, {32});
  EXPECT_EQ(check(rule, {{{dp}, {tp}}, {}}, mesh), "");
  EXPECT_EQ(check(rule, {{{dp}, {}}, {}}, mesh), "");
  EXPECT_NE(check(rule, {{{}, {tp}}, {}}, mesh), "");
  EXPECT_EQ(resultSharding(rule, {{{dp}, {tp}}, {}}, 0), (TensorSharding{{{dp, tp}}, {}}));
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// Coordinates of the factors at a flat index, by one side of the rule.
static std::vector<int64_t> coordinates(const ShardingRule &rule, const TensorFactors &tensor,
                                        const std::vector<int64_t> &shape, int64_t flat) {
  std::vector<int64_t> result(rule.factors.size(), -1);
  for (size_t dim = shape.size(); dim-- > 0;) {
    int64_t index = flat % shape[dim];
    flat /= shape[dim];
    for (size_t i = tensor[dim].size(); i-- > 0;) {
      FactorId factor = tensor[dim][i];
      result[factor] = index % rule.factors[factor].size;
      index /= rule.factors[factor].size;
    }
    EXPECT_EQ(index, 0) << "factors do not fill dimension " << dim;
  }
  return result;
}

TEST(Rule, ReshapeFactorsAgreeOnEveryElement) {
  std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
      {{4, 6}, {24}},         {{24}, {4, 6}},     {{2, 12}, {4, 6}}, {{4, 6}, {3, 8}},
      {{2, 3, 4}, {6, 4}},    {{6, 4}, {2, 12}},  {{1, 6, 1}, {6}},  {{6}, {1, 2, 1, 3}},
      {{2, 4, 9}, {8, 3, 3}}, {{5, 4, 6}, {5, 3, 8}}, {{}, {1, 1}},  {{1}, {}},
      {{4, 6, 5}, {3, 8, 5}}, {{8, 9}, {6, 12}},  {{0, 4}, {4, 0}},  {{2, 2, 2}, {8}},
  };
  for (const auto &[from, to] : cases) {
    ShardingRule rule = RuleBuilder::reshape(from, to);
    ASSERT_EQ(rule.operands[0].size(), from.size());
    ASSERT_EQ(rule.results[0].size(), to.size());
    int64_t elements = 1;
    for (int64_t size : from)
      elements *= size;
    for (int64_t flat = 0; flat < elements; ++flat) {
      auto a = coordinates(rule, rule.operands[0], from, flat);
      auto b = coordinates(rule, rule.results[0], to, flat);
      for (size_t f = 0; f < rule.factors.size(); ++f) {
        if (rule.factors[f].kind == FactorKind::Whole)
          continue;
        EXPECT_EQ(a[f], b[f]) << rule.str();
      }
    }
  }
}

TEST(Rule, ReshapeKeepsWhatItCan) {
  EXPECT_EQ(RuleBuilder::reshape({2, 12}, {4, 6}).str(),
            "([a,(b c)])->([(a b),c]) {a=2,b=2,c=6} linear{{0}}");
  EXPECT_EQ(RuleBuilder::reshape({4, 6, 5}, {3, 8, 5}).str(),
            "([a,b,e])->([c,d,e]) {a=4,b=6,c=3,d=8,e=5} whole{a,b,c,d} linear{{0}}");
}
