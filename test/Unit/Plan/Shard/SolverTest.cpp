// The solver against enumeration of all plans, on small random graphs.
#include "Problems.h"
#include "RandomProblem.h"
#include "Transformer.h"

#include "dtc/Plan/Plan/Verify.h"

#include <random>

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::AxisId;
using dtc::sharding::FactorKind;
using dtc::sharding::OpSharding;

namespace {

/// A chain with branches: each op reads one of the last three values.
Problem randomProblem(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](size_t n) { return random() % n; };
  ProblemBuilder builder;
  // Weights first: arguments are the first values.
  ValueId input = builder.argument(ValueKind::Input, {2, 64, 32});
  std::vector<ValueId> weights;
  for (int i = 0; i < 4; ++i)
    weights.push_back(builder.argument(ValueKind::Parameter, {32, 32}));
  std::vector<ValueId> made = {input};
  auto recent = [&] { return made[made.size() - 1 - below(std::min<size_t>(3, made.size()))]; };
  size_t nextWeight = 0;
  for (int i = 0; i < 4; ++i)
    switch (below(4)) {
    case 0:
      made.push_back(builder.contract(recent(), weights[nextWeight++]));
      break;
    case 1:
      made.push_back(builder.add(recent(), recent()));
      break;
    case 2:
      made.push_back(builder.softmax(recent()));
      break;
    default:
      made.push_back(builder.pointwise(recent()));
    }
  return builder.finish({made.back()}, 2);
}

/// Every choice of an op: tp on a factor, on a set of pending operands, or on
/// nothing; the batch is not split.
std::vector<OpSharding> allChoices(const Problem &problem, const Op &op,
                                   const dtc::sharding::Mesh &mesh) {
  OpSharding none{std::vector<dtc::sharding::AxisList>(op.rule->factors.size()), {}};
  std::vector<OpSharding> result = {none};
  for (size_t f = 1; f < op.rule->factors.size(); ++f) { // factor 0 is the batch
    OpSharding choice = none;
    choice.factors[f] = {0};
    result.push_back(choice);
  }
  for (size_t set = 0; set < op.rule->linear.size(); ++set) {
    OpSharding choice = none;
    choice.pending = {{0, static_cast<int>(set)}};
    result.push_back(choice);
  }
  std::erase_if(result, [&](const OpSharding &choice) {
    return !dtc::sharding::check(op.rule, choice, mesh).empty();
  });
  return result;
}

/// The least predicted time over all plans; arguments of one reader are laid
/// out as it wants them.
double bruteForce(const Problem &problem, const Plan &like, const Cluster &cluster) {
  std::vector<std::vector<OpSharding>> choices;
  for (const Op &op : problem.ops)
    choices.push_back(allChoices(problem, op, like.mesh));
  std::vector<size_t> at(choices.size(), 0);
  double best = 1e300;
  Plan plan = like;
  while (true) {
    for (size_t i = 0; i < at.size(); ++i) {
      plan.ops[i] = choices[i][at[i]];
      const Op &op = problem.ops[i];
      for (size_t o = 0; o < op.operands.size(); ++o)
        if (problem.values[op.operands[o]].kind == ValueKind::Parameter)
          plan.arguments[op.operands[o]] =
              dtc::sharding::operandSharding(op.rule, plan.ops[i], o);
    }
    if (verify(problem, plan, cluster).empty())
      best = std::min(best, predict(problem, plan, cluster).stepSeconds);
    size_t i = 0;
    while (i < at.size() && ++at[i] == choices[i].size())
      at[i++] = 0;
    if (i == at.size())
      return best;
  }
}

} // namespace

TEST(Solver, IsOptimalOnRandomGraphs) {
  // A slow link, a fast one, and one on which latency decides.
  Cluster slow = cluster("dgx-h100"), fast = slow, latent = slow;
  slow.levels = {{"link", 0, 1e8, 1e-7}};
  slow.device.launchSeconds = 0;
  slow.device.achieved[DType::F32] = 1e10;
  fast = slow;
  fast.levels = {{"link", 0, 1e10, 1e-8}};
  latent = slow;
  latent.levels = {{"link", 0, 1e10, 1e-5}};
  int split = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Problem problem = randomProblem(seed);
    ASSERT_EQ(check(problem), "");
    ProblemFacts facts(problem);
    const Cluster &chosen = seed % 3 == 0 ? slow : seed % 3 == 1 ? fast : latent;
    Degrees degrees;
    degrees.tp = 2;
    degrees.microBatch = 2;
    auto solution = solveSharding(problem, facts, chosen, degrees);
    ASSERT_TRUE(solution) << solution.error().message;
    EXPECT_EQ(verify(problem, solution->plan, chosen).size(), 0u);
    double predicted = predict(problem, solution->plan, chosen).stepSeconds;
    double best = bruteForce(problem, solution->plan, chosen);
    EXPECT_NEAR(predicted, best, 1e-9 * best) << "seed " << seed;
    EXPECT_EQ(solution->gap, 0);
    for (const OpSharding &op : solution->plan.ops)
      split += op.uses(0);
  }
  EXPECT_GT(split, 20) << "the problems must be worth splitting now and then";
}

TEST(Solver, ItsCostIsThePrediction) {
  for (const char *name : {"gpt", "llama", "llama_kv2"})
    for (int64_t tp : {2, 4, 8}) {
      Problem problem = load(name);
      ProblemFacts facts(problem);
      Degrees degrees;
      degrees.tp = tp;
      auto solution =
          solveSharding(problem, facts, cluster("dgx-h100"), degrees);
      ASSERT_TRUE(solution);
      double predicted = predict(problem, solution->plan, cluster("dgx-h100")).stepSeconds;
      // Gradients pending at the end are priced as a share of a bucket.
      EXPECT_NEAR(solution->seconds, predicted, 0.005 * predicted) << name << " tp=" << tp;
    }
}

TEST(Solver, IsDeterministic) {
  Problem problem = load("llama_kv2");
  std::string first = toYaml(plan(problem, 4, "tp=4").plan, problem);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(toYaml(plan(problem, 4, "tp=4").plan, problem), first);
}

/// Samples and positions merged into one dimension: the sequence can't be split.
TEST(Solver, NamesTheOpThatHasNoChoice) {
  Degrees degrees;
  degrees.cp = 2;
  int refused = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Problem problem = randomProblem(seed, {});
    auto solution = solveSharding(problem, ProblemFacts(problem), cluster("dgx-h100"), degrees);
    if (solution)
      continue;
    ++refused;
    EXPECT_EQ(solution.error().category, ErrorCategory::NoFit);
    EXPECT_TRUE(solution.error().message.starts_with("no legal sharding of dtc.reshape (node"))
        << solution.error().message;
  }
  EXPECT_GT(refused, 0);
}

/// No other setting is: whoever asks may have pinned them otherwise.
TEST(Solver, NamesWhatOpsCannotBeDividedBy) {
  Problem problem = load("llama_kv2");
  Degrees degrees;
  degrees.tp = 3;
  auto solution = solveSharding(problem, ProblemFacts(problem), cluster("dgx-h100"), degrees,
                                {.sequenceParallel = true});
  ASSERT_FALSE(solution);
  EXPECT_TRUE(solution.error().message.ends_with(") for tp=3 sp=on")) << solution.error().message;
}

/// Twelve layers with the weights of one, as in ALBERT. How the terms of a gradient are laid out
/// isn't tried in all combinations, and each layer more costs the same.
TEST(Solver, SharesWeightsAmongManyLayers) {
  const Cluster on = cluster("dgx-h100");
  Degrees degrees;
  degrees.tp = 2;
  auto solved = [&](int64_t layers) {
    TransformerSize size{layers, 1024, 16, 1024, 8, 8192};
    size.oneLayer = true;
    Problem problem = transformer(size);
    EXPECT_EQ(check(problem), "");
    auto solution = solveSharding(problem, ProblemFacts(problem), on, degrees);
    if (!solution) {
      ADD_FAILURE() << solution.error().message;
      return 0.0;
    }
    EXPECT_EQ(solution->gap, 0);
    for (const Violation &violation : verify(problem, solution->plan, on))
      ADD_FAILURE() << violation.message;
    double predicted = predict(problem, solution->plan, on).stepSeconds;
    EXPECT_NEAR(solution->seconds, predicted, 0.04 * predicted) << layers;
    return solution->seconds;
  };
  double two = solved(2), four = solved(4), twelve = solved(12);
  EXPECT_NEAR(twelve, four + 4 * (four - two), 0.01 * twelve);
}
