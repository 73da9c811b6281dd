#include "dtc/Sharding/Reshard.h"
#include "dtc/Sharding/Rule.h"

#include "Enumerate.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

static const Mesh mesh{{{"a", "a", 2}, {"b", "b", 2}}};

static ShardingRule matmul() {
  RuleBuilder builder(2, 1);
  FactorId b = builder.factor(8), k = builder.factor(8, FactorKind::Reduction),
           n = builder.factor(8);
  builder.operandDim(0, b).operandDim(0, k).operandDim(1, k).operandDim(1, n);
  builder.resultDim(0, b).resultDim(0, n).linear({0}).linear({1});
  return builder.build();
}

static ShardingRule add() {
  RuleBuilder builder = RuleBuilder::elementwise(2, 1, {8, 6});
  builder.linear({0, 1});
  return builder.build();
}

/// x[b,k] with k in rounds, scale[k] -> y[b,k], statistic[b]
static ShardingRule norm() {
  RuleBuilder builder(2, 2);
  FactorId b = builder.factor(4), k = builder.factor(8, FactorKind::Rounds);
  builder.operandDim(0, b).operandDim(0, k).operandDim(1, k);
  builder.resultDim(0, b).resultDim(0, k).resultDim(1, b);
  return builder.build();
}

static std::vector<ShardingRule> rules() {
  return {matmul(), add(), norm(), RuleBuilder::reshape({2, 12}, {4, 6}),
          RuleBuilder::reshape({4, 6}, {24}), RuleBuilder::reshape({4, 6}, {3, 8})};
}

/// Calls `visit` with every combination of operand shardings.
template <typename Visit> static void forAllOperands(const ShardingRule &rule, Visit visit) {
  std::vector<std::vector<TensorSharding>> choices;
  for (const TensorFactors &operand : rule.operands)
    choices.push_back(allShardings(operand.size(), mesh, ReduceKind::Sum));
  std::vector<size_t> index(choices.size());
  for (;;) {
    std::vector<TensorSharding> operands;
    for (size_t i = 0; i < choices.size(); ++i)
      operands.push_back(choices[i][index[i]]);
    visit(operands);
    size_t i = 0;
    while (i < index.size() && ++index[i] == choices[i].size())
      index[i++] = 0;
    if (i == index.size())
      return;
  }
}

TEST(Follow, IsAlwaysLegalAndReachable) {
  for (const ShardingRule &rule : rules())
    for (bool rounds : {false, true})
      forAllOperands(rule, [&](const std::vector<TensorSharding> &operands) {
        std::vector<int64_t> bytes(operands.size(), 4);
        bytes.back() = 8;
        OpSharding choice = follow(rule, operands, bytes, mesh, rounds);
        ASSERT_EQ(check(rule, choice, mesh), "") << rule.str();
        ASSERT_TRUE(rounds || !needsRounds(rule, choice)) << rule.str();
        for (size_t i = 0; i < operands.size(); ++i)
          ASSERT_TRUE(reshard(operands[i], operandSharding(rule, choice, i), mesh))
              << rule.str() << operands[i].str(mesh);
      });
}

/// Operands that already fit together stay where they are.
TEST(Follow, LeavesFittingOperandsInPlace) {
  for (const ShardingRule &rule : rules()) {
    std::vector<OpSharding> choices = {{std::vector<AxisList>(rule.factors.size()), {}}};
    for (AxisId axis : {0, 1}) {
      std::vector<OpSharding> next = choices;
      for (const OpSharding &choice : choices)
        for (size_t factor = 0; factor < rule.factors.size(); ++factor) {
          next.push_back(choice);
          next.back().factors[factor].push_back(axis);
        }
      choices = std::move(next);
    }
    for (const OpSharding &choice : choices) {
      if (!check(rule, choice, mesh).empty())
        continue;
      std::vector<TensorSharding> operands;
      for (size_t i = 0; i < rule.operands.size(); ++i)
        operands.push_back(operandSharding(rule, choice, i));
      EXPECT_EQ(follow(rule, operands, std::vector<int64_t>(operands.size(), 4), mesh, true),
                choice)
          << rule.str();
    }
  }
}

TEST(Follow, LargerOperandWins) {
  std::vector<TensorSharding> operands = {{{{0}, {}}, {}}, {{{}, {0}}, {}}};
  EXPECT_EQ(follow(add(), operands, {8, 4}, mesh, false).factors, (std::vector<AxisList>{{0}, {}}));
  EXPECT_EQ(follow(add(), operands, {4, 8}, mesh, false).factors, (std::vector<AxisList>{{}, {0}}));
  EXPECT_EQ(follow(add(), operands, {8, 8}, mesh, false).factors, (std::vector<AxisList>{{0}, {}}));
}

TEST(Follow, PendingPassesOnlyWhereAllOfTheSetPend) {
  TensorSharding whole = TensorSharding::replicated(2), pending{{{}, {}}, {{0, ReduceKind::Sum}}};
  TensorSharding maximum{{{}, {}}, {{0, ReduceKind::Max}}};
  EXPECT_EQ(follow(add(), {pending, pending}, {4, 4}, mesh, false).pending,
            (std::vector<OpSharding::Pending>{{0, 0}}));
  EXPECT_TRUE(follow(add(), {pending, whole}, {4, 4}, mesh, false).pending.empty());
  EXPECT_TRUE(follow(add(), {maximum, maximum}, {4, 4}, mesh, false).pending.empty());
  EXPECT_EQ(follow(matmul(), {pending, whole}, {4, 4}, mesh, false).pending,
            (std::vector<OpSharding::Pending>{{0, 0}}));
}

TEST(Follow, ResolvesBeforeAGrowingOp) {
  RuleBuilder builder(1, 1); // broadcast [h] -> [b,h]
  FactorId b = builder.factor(8), h = builder.factor(8);
  builder.operandDim(0, h).resultDim(0, b).resultDim(0, h).linear({0});
  TensorSharding pending{{{}}, {{0, ReduceKind::Sum}}};
  EXPECT_TRUE(follow(builder.build(), {pending}, {4}, mesh, false).pending.empty());
}
