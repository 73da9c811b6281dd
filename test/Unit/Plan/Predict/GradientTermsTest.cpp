// What the terms of weights' gradients take, and the parts of new parameters.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Predict/RankExecution.h"

#include <algorithm>
#include <cmath>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// A problem carried out on one device by a program of dtc's own.
struct OnOneDevice {
  explicit OnOneDevice(Problem given) : problem(std::move(given)) {}
  Problem problem;
  ProblemFacts facts{problem};
  Cluster on = cluster("dgx-h100");
  CostModel model{on, 1};
  Plan plan = solveSharding(problem, facts, on, Degrees{})->plan;
  RankExecution execution{problem, facts, plan, model};

  bool isOfWeight(const ExecutionStep &sum) const {
    const ValueId made = problem.ops[sum.op].results[0];
    return facts.isResult[made] && facts.gradientOf[made] >= 0;
  }

  /// The sum that is the gradient of the parameter which the most ops read.
  const ExecutionStep &largestSum() const {
    return *std::ranges::max_element(execution.steps, {}, [&](const ExecutionStep &step) {
      return step.addsTerms && isOfWeight(step) ? step.reads.size() : 0;
    });
  }
};

Problem layersThatShare(int64_t layers) {
  TransformerSize size{layers, 64, 2, 16, 1, 64};
  size.oneLayer = true;
  return transformer(size);
}

} // namespace

TEST(GradientTerms, AFewWaitForTheSum) {
  const OnOneDevice three(layersThatShare(3));
  const ExecutionStep &sum = three.largestSum();
  ASSERT_EQ(sum.reads.size(), 3u);
  for (int term : sum.reads)
    EXPECT_EQ(three.execution.buffers[term].until, -1);
}

TEST(GradientTerms, ManyAreAddedAsTheyAreMade) {
  const OnOneDevice four(layersThatShare(4));
  const ExecutionStep &sum = four.largestSum();
  ASSERT_EQ(sum.reads.size(), 4u);
  for (int term : sum.reads)
    EXPECT_EQ(four.execution.buffers[term].until, term);
  EXPECT_TRUE(four.execution.buffers[sum.reads.front()].persistent) << "the sum lies there";
  EXPECT_FALSE(four.execution.buffers[sum.reads.back()].persistent);
}

/// The head's product makes the first term, whose place the sum has.
TEST(GradientTerms, RowsOfATableAreAddedByTheSum) {
  const OnOneDevice gpt(load("gpt"));
  const auto rows = std::ranges::find_if(gpt.problem.ops, [](const Op &op) {
    return op.kind == OpKind::Lookup && op.backward == BackwardKind::WeightGrad;
  });
  ASSERT_NE(rows, gpt.problem.ops.end());
  const OpId id = static_cast<OpId>(rows - gpt.problem.ops.begin());
  const auto made = std::ranges::find_if(gpt.execution.steps, [&](const ExecutionStep &step) {
    return step.op == id && !step.collective;
  });
  ASSERT_NE(made, gpt.execution.steps.end());
  EXPECT_TRUE(gpt.execution.buffers[made->writes.front()].persistent);
}

/// What optimizer states and the update take of two ranks: whole, and where each updates a half.
struct Updates {
  explicit Updates(int64_t vocabulary) {
    const Problem problem = transformer({1, 256, 2, 2, 2, vocabulary}); // its head dominates
    whole = predicted(problem, Software(), 2, "dp=2,zero=0").memory;
    parts = predicted(problem, Software(), 2, "dp=2,zero=1").memory;
  }
  MemoryUse whole, parts;
};

TEST(UpdatedParts, LieBesideTheParametersUntilTheyAreGathered) {
  const Updates of(1 << 19);
  EXPECT_EQ(of.parts.parameters, of.whole.parameters);
  const int64_t free = std::llround(CostModel(cluster("dgx-h100"), 2).reserve(0).workspace);
  ASSERT_GT(of.whole.parameters / 2, free);
  EXPECT_EQ(of.parts.optimizer, of.whole.optimizer / 2 + of.whole.parameters / 2 - free);
}

TEST(UpdatedParts, LieWhereLibrariesHaveTheirWorkspace) {
  const Updates of(1 << 13);
  EXPECT_EQ(of.parts.optimizer, of.whole.optimizer / 2);
}
