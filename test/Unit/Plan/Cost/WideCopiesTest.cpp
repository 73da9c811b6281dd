// Products of half precision on processors that multiply copies in f32.
#include "Problems.h"

#include "dtc/Plan/Cost/OpWork.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::Mesh;
using dtc::sharding::OpSharding;

namespace {

constexpr double kSize = 2 * 64 * 32 * 2; ///< bytes of a tensor of activations in bf16
constexpr double kWeight = 32 * 32 * 2;

Problem inHalf(Problem problem) {
  for (Value &value : problem.values)
    value.type = DType::BF16;
  for (Op &op : problem.ops)
    op.widened = op.kind == OpKind::Contraction;
  return problem;
}

/// tanh(x) * v * w, all of it in bf16. Another op reads the first product, too, if that is shared.
Problem twoProducts(bool isShared) {
  ProblemBuilder builder;
  const ValueId x = builder.argument(ValueKind::Input, {2, 64, 32}),
                v = builder.argument(ValueKind::Parameter, {32, 32}),
                w = builder.argument(ValueKind::Parameter, {32, 32});
  const ValueId first = builder.contract(builder.pointwise(x), v);
  std::vector<ValueId> results = {builder.contract(first, w)};
  if (isShared)
    results.push_back(builder.pointwise(first));
  return inHalf(builder.finish(results, 2));
}

LocalWork workOf(const Problem &problem, OpId id) {
  OpSharding whole;
  whole.factors.resize(problem.ops[id].rule->factors.size());
  const ProblemFacts facts(problem);
  const CostModel model(cluster("cpu"), 1);
  return OpWork(problem, facts, model).work(id, whole, Mesh());
}

} // namespace

TEST(WideCopies, AreMadeByKernelsBesideTheProduct) {
  const LocalWork work = workOf(twoProducts(/*isShared=*/true), 1);
  EXPECT_EQ(work.type, DType::F32);
  EXPECT_EQ(work.bytes, 2 * (kSize + kWeight + kSize));
  // The tanh gives f32. The weight is copied, and the result is rounded for its readers.
  EXPECT_EQ(work.passes, 2);
  EXPECT_EQ(work.passedBytes, kSize + 3 * kWeight + 3 * kSize);
}

TEST(WideCopies, AnOnlyReaderRoundsForItself) {
  const Problem problem = twoProducts(/*isShared=*/false);
  const LocalWork first = workOf(problem, 1);
  EXPECT_EQ(first.passes, 1);
  EXPECT_EQ(first.passedBytes, kSize + 3 * kWeight + kSize);
  // No kernel has made what the second one reads.
  const LocalWork second = workOf(problem, 2);
  EXPECT_EQ(second.passes, 3);
  EXPECT_EQ(second.passedBytes, 3 * kSize + 3 * kWeight + 3 * kSize);
}

/// What is read behind the next product is rounded until then.
TEST(WideCopies, AreRoundedForALateReader) {
  ProblemBuilder builder;
  const ValueId x = builder.argument(ValueKind::Input, {2, 64, 32}),
                v = builder.argument(ValueKind::Parameter, {32, 32}),
                w = builder.argument(ValueKind::Parameter, {32, 32});
  const ValueId first = builder.contract(x, v);
  const LocalWork work =
      workOf(inHalf(builder.finish({builder.add(first, builder.contract(x, w))}, 2)), 0);
  EXPECT_EQ(work.passes, 3);
  EXPECT_EQ(work.passedBytes, 3 * kSize + 3 * kWeight + 3 * kSize);
}

TEST(WideCopies, TakeTimeBesideTheProduct) {
  Problem problem = twoProducts(/*isShared=*/true);
  const LocalWork copied = workOf(problem, 1);
  const Cluster on = cluster("cpu");
  const CostModel model(on, 1);
  LocalWork alone = copied;
  alone.passes = 0;
  alone.passedBytes = 0;
  EXPECT_DOUBLE_EQ(model.opSeconds(copied), model.opSeconds(alone) +
                                                model.streamSeconds(copied.passedBytes) +
                                                2 * model.launchSeconds());
  for (Op &op : problem.ops)
    op.widened = false;
  EXPECT_EQ(workOf(problem, 1).passes, 0);
  EXPECT_EQ(workOf(problem, 1).type, DType::BF16);
}
