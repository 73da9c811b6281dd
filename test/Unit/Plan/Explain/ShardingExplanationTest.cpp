// Every way in which a tensor or op can be sharded, with its price.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Explain/ShardingExplanation.h"

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::TensorSharding;

namespace {

struct Planned {
  Problem problem;
  SearchResult result;
};

Planned planned(const TransformerSize &size, int64_t devices, const std::string &spec) {
  Planned all{transformer(size), {}};
  all.result = best(all.problem, devices, "cp=1,ep=1," + spec);
  return all;
}

Result<ShardingExplanation> subject(const Planned &all, const std::string &name) {
  const SearchResult &result = all.result;
  auto found = explainSharding(result.problem, result.plan, result.predicted, cluster("dgx-h100"),
                              result.solver, name);
  if (!found)
    return found.error();
  EXPECT_EQ(found->size(), 1u) << name; // of one mesh
  return found->at(0);
}

const TransformerSize kSize = {4, 4096, 32, 2048, 16, 50304};
const std::string kTensor = "dp=1,tp=8,pp=1,zero=0,recompute=none,micro_batch=4";

} // namespace

TEST(ShardingExplanation, FixingASolutionsOwnWayChangesNothing) {
  Problem problem = transformer({4, 4096, 32, 2048, 4, 50304});
  ProblemFacts facts(problem);
  Degrees degrees;
  degrees.tp = 8;
  SolverOptions options;
  auto free = solveSharding(problem, facts, cluster("dgx-h100"), degrees, options);
  ASSERT_TRUE(free);
  ValueId up = 5; // h.0.up
  ASSERT_EQ(problem.values[up].name, "h.0.up");
  options.forced.emplace();
  options.forced->argument = up;
  options.forced->tensor = free->plan.arguments.at(up);
  auto same = solveSharding(problem, facts, cluster("dgx-h100"), degrees, options);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->plan, free->plan);
  for (int dim : {0, 1}) {
    TensorSharding sharding = TensorSharding::replicated(2);
    sharding.dims[dim] = free->plan.mesh.ofDegree("tp");
    options.forced->tensor = sharding;
    auto other = solveSharding(problem, facts, cluster("dgx-h100"), degrees, options);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->plan.arguments.at(up), sharding);
    EXPECT_GE(other->seconds, free->seconds * (1 - 1e-9)) << "the free one is the best";
  }
}

TEST(ShardingExplanation, AParametersOtherWays) {
  Planned all = planned(kSize, 8, kTensor);
  auto found = subject(all, "h.1.up");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "parameter");
  EXPECT_EQ(found->shape, "4096x16384");
  ASSERT_EQ(found->ways.size(), 3u);
  EXPECT_TRUE(found->ways[0].chosen);
  for (size_t i = 1; i < 3; ++i) {
    ASSERT_TRUE(found->ways[i].difference) << found->ways[i].refusal;
    EXPECT_NE(found->ways[i].sharding, found->ways[0].sharding);
    EXPECT_NEAR(found->ways[i].difference->parts.total(), found->ways[i].difference->seconds,
                1e-9 * all.result.predicted.stepSeconds);
  }
}

TEST(ShardingExplanation, AnOpsOtherWaysAndWhyNot) {
  Planned all = planned(kSize, 8, kTensor);
  const Problem &problem = all.result.problem;
  const Op *attention = nullptr;
  for (const Op &op : problem.ops)
    if (op.kind == OpKind::Attention && !op.backward && !attention)
      attention = &op;
  ASSERT_TRUE(attention);
  auto found = subject(all, attention->location);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "dtc.attention");
  std::string refusals;
  int priced = 0;
  for (const ShardingWay &way : found->ways) {
    refusals += way.refusal + "\n";
    priced += way.difference.has_value();
  }
  EXPECT_GE(priced, 1);
  EXPECT_NE(refusals.find("is the batch, which data parallelism splits"), std::string::npos);
  EXPECT_NE(refusals.find("is needed whole"), std::string::npos) << refusals;
  EXPECT_NE(refusals.find("would have to be taken apart"), std::string::npos) << refusals;
}

TEST(ShardingExplanation, SizesThatDoNotDivide) {
  // Three heads of 512 over tp=2.
  Planned all = planned({2, 1536, 3, 1024, 8, 8192}, 2,
                        "dp=1,tp=2,pp=1,zero=0,recompute=none,micro_batch=8");
  auto found = subject(all, "h.0.q");
  ASSERT_TRUE(found);
  std::string refusals;
  for (const ShardingWay &way : found->ways)
    refusals += way.refusal;
  EXPECT_EQ(refusals, "dimension 1 has size 3, not a multiple of tp=2");
}

TEST(ShardingExplanation, WithoutTensorParallelismThereIsNoChoice) {
  Planned all = planned(kSize, 8, "dp=8,tp=1,pp=1,zero=1,recompute=none,micro_batch=1");
  auto found = subject(all, "h.1.up");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ways.size(), 1u);
}

TEST(ShardingExplanation, UnknownNames) {
  Planned all = planned(kSize, 8, kTensor);
  auto found = subject(all, "h.1.upp");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().category, ErrorCategory::Usage);
  EXPECT_EQ(found.error().message, "--explain: the model has no tensor or node named 'h.1.upp' "
                                   "(did you mean 'h.1.up'?)");
}
