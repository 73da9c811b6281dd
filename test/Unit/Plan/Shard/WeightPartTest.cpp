// Weights that an op without samples reads first: terms of their gradients pass it where that pays.
#include "Problems.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::FactorId;
using dtc::sharding::FactorKind;
using dtc::sharding::RuleBuilder;
using dtc::sharding::ShardingRule;

namespace {

constexpr int64_t kBatch = 8, kUsed = 32, kWidth = 64;
constexpr OpId kReduce = 2, kPad = 3;

/// From `from` rows of a table to `to` of them.
ShardingRule ruleOfRows(int64_t from, int64_t to) {
  RuleBuilder rule(1, 1);
  const FactorId in = rule.factor(from, FactorKind::Whole),
                 out = rule.factor(to, FactorKind::Whole), width = rule.factor(kWidth);
  rule.operandDim(0, in).operandDim(0, width).resultDim(0, out).resultDim(0, width);
  return rule.linear({0}).build();
}

/// y[b,s,w] = x[b,s,w] + part[s,w]
ShardingRule ruleOfSum() {
  RuleBuilder rule(2, 1);
  const FactorId b = rule.factor(kBatch), s = rule.factor(kUsed), w = rule.factor(kWidth);
  rule.operandDim(0, b).operandDim(0, s).operandDim(0, w).operandDim(1, s).operandDim(1, w);
  return rule.resultDim(0, b).resultDim(0, s).resultDim(0, w).build();
}

ShardingRule ruleOfReduction() {
  RuleBuilder rule(1, 1);
  const FactorId b = rule.factor(kBatch, FactorKind::Reduction), s = rule.factor(kUsed),
                 w = rule.factor(kWidth);
  rule.operandDim(0, b).operandDim(0, s).operandDim(0, w).resultDim(0, s).resultDim(0, w);
  return rule.linear({0}).build();
}

/// A table of so many positions, of which samples have the first ones.
Problem positions(int64_t rows) {
  Problem problem;
  auto value = [&](std::vector<int64_t> shape, ValueKind kind) {
    problem.values.push_back({.name = "v" + std::to_string(problem.values.size()),
                              .shape = std::move(shape),
                              .kind = kind,
                              .trainable = kind == ValueKind::Parameter});
    return static_cast<ValueId>(problem.values.size()) - 1;
  };
  auto op = [&](OpKind kind, ShardingRule rule, std::vector<ValueId> operands, OpId forward,
                std::vector<int64_t> shape) {
    Op made{.name = "op", .kind = kind, .rule = std::move(rule), .operands = std::move(operands)};
    made.results = {value(std::move(shape), ValueKind::Activation)};
    made.forward = forward;
    if (static_cast<size_t>(forward) != problem.ops.size())
      made.backward = BackwardKind::WeightGrad;
    problem.ops.push_back(made);
    return made.results[0];
  };
  const std::vector<int64_t> whole = {rows, kWidth}, used = {kUsed, kWidth},
                             samples = {kBatch, kUsed, kWidth};
  const ValueId table = value(whole, ValueKind::Parameter), x = value(samples, ValueKind::Input),
                dy = value(samples, ValueKind::Input);
  problem.arguments = 3;
  problem.batch = kBatch;
  const ValueId part = op(OpKind::Reindex, ruleOfRows(rows, kUsed), {table}, 0, used);
  const ValueId y = op(OpKind::Elementwise, ruleOfSum(), {x, part}, 1, samples);
  const ValueId ofPart = op(OpKind::Reduction, ruleOfReduction(), {dy}, 1, used);
  const ValueId ofTable = op(OpKind::Join, ruleOfRows(kUsed, rows), {ofPart}, 0, whole);
  problem.results = {{y, ResultKind::Output, "y"}, {ofTable, ResultKind::Gradient, "v0"}};
  return problem;
}

/// Whether the gradient of the table's part leaves its op as terms, and that of the table too.
std::pair<bool, bool> leaveAsTerms(int64_t rows, int64_t microbatches) {
  const Problem problem = positions(rows);
  EXPECT_EQ(check(problem), "");
  Degrees degrees;
  degrees.dp = 2;
  SolverOptions options;
  options.numMicrobatches = microbatches;
  const Cluster on = cluster("dgx-h100");
  auto solution = solveSharding(problem, ProblemFacts(problem), on, degrees, options);
  if (!solution) {
    ADD_FAILURE() << solution.error().message;
    return {};
  }
  auto isTerm = [&](OpId id) {
    return resultSharding(problem.ops[id].rule, solution->plan.ops[id], 0).isPartial(0);
  };
  return {isTerm(kReduce), isTerm(kPad)};
}

using Terms = std::pair<bool, bool>;

} // namespace

TEST(WeightParts, AreSummedOnceAStepWithTheirWeight) {
  EXPECT_EQ(leaveAsTerms(2 * kUsed, 1), Terms(true, true));
  EXPECT_EQ(leaveAsTerms(2 * kUsed, 8), Terms(true, true));
}

/// The sum of all rows would take longer than many of the few in use.
TEST(WeightParts, AreSummedAloneWhereTheirWeightIsMuchLarger) {
  EXPECT_EQ(leaveAsTerms(int64_t{1} << 22, 1), Terms(true, false));
}
