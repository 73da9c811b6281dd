// What a plan's flow is checked for without costs, and what carrying the plan out finds, are the
// same. The plans and problems are random, and most ops are sharded anyhow.
#include "Problems.h"
#include "RandomProblem.h"

#include "dtc/Plan/Plan/Flow.h"
#include "dtc/Plan/Predict/RankExecution.h"

#include <random>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using namespace dtc::sharding;

namespace {

class RandomPlan {
public:
  RandomPlan(const Problem &problem, unsigned seed) : problem(problem), random(seed) {}

  /// Two axes, and shardings of arguments and ops that fit them; whether what an op reads as
  /// pending is pending is left to chance.
  Plan make() {
    plan.mesh.axes = {{"dp", "dp", 2}, {"tp", "tp", 2}};
    plan.degrees.dp = plan.degrees.tp = 2;
    for (ValueId value = 0; value < problem.arguments; ++value)
      plan.arguments[value] = argument(problem.values[value]);
    for (const Op &op : problem.ops)
      plan.ops.push_back(choice(op.rule));
    return std::move(plan);
  }

private:
  int below(size_t n) { return static_cast<int>(random() % n); }

  TensorSharding argument(const Value &value) {
    TensorSharding sharding = TensorSharding::replicated(value.shape.size());
    for (AxisId axis : {0, 1}) {
      TensorSharding changed = sharding;
      if (value.kind == ValueKind::Accumulator && below(2) == 0)
        changed.partial.push_back({axis, ReduceKind::Sum});
      else if (!value.shape.empty() && below(2) == 0)
        changed.dims[below(value.shape.size())].push_back(axis);
      if (changed.check(value.shape, plan.mesh).empty())
        sharding = changed;
    }
    return sharding;
  }

  OpSharding choice(const ShardingRule &rule) {
    OpSharding made;
    made.factors.resize(rule.factors.size());
    for (AxisId axis : {0, 1}) {
      OpSharding changed = made;
      int kind = below(40);
      if (kind == 0 && !rule.linear.empty())
        changed.pending.push_back({axis, below(rule.linear.size())});
      else if (kind < 25 && !rule.factors.empty())
        changed.factors[below(rule.factors.size())].push_back(axis);
      if (check(rule, changed, plan.mesh).empty())
        made = changed;
    }
    return made;
  }

  const Problem &problem;
  std::mt19937 random;
  Plan plan;
};

/// Finds the same as carrying the plan out does.
bool isBroken(const Problem &problem, const Plan &plan) {
  ProblemFacts facts(problem);
  CostModel model(cluster("dgx-h100"), plan.mesh.devices());
  RankExecution execution(problem, facts, plan, model);
  std::optional<BrokenFlow> broken = findBrokenFlow(problem, facts, plan);
  EXPECT_EQ(broken ? broken->message : "", execution.error);
  EXPECT_EQ(broken ? broken->op : -1, execution.errorOp);
  return broken.has_value();
}

} // namespace

TEST(Flow, IsBrokenWhereItCannotBeCarriedOut) {
  int broken = 0, whole = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Problem problem = randomProblem(seed, {.ops = 3, .training = seed % 4 != 0});
    ASSERT_EQ(check(problem), "");
    ++(isBroken(problem, RandomPlan(problem, seed).make()) ? broken : whole);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(broken, 100);
  EXPECT_GT(whole, 100);
}

/// What a program returns as the gradient of a parameter of another rank.
TEST(Flow, IsBrokenWhereAResultCannotLeave) {
  int broken = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Problem problem = randomProblem(seed, {.ops = 3});
    Plan plan = RandomPlan(problem, seed).make();
    if (problem.results.size() < 2 || isBroken(problem, plan))
      continue;
    auto rank = [&](int result) {
      return problem.values[problem.results[result].value].shape.size();
    };
    std::swap(problem.results[0].name, problem.results[1].name);
    if (rank(0) == rank(1))
      continue;
    EXPECT_TRUE(isBroken(problem, plan)) << "seed " << seed;
    EXPECT_TRUE(check(problem).starts_with("gradient has another shape than its parameter: "))
        << check(problem);
    ++broken;
  }
  EXPECT_GT(broken, 10);
}
