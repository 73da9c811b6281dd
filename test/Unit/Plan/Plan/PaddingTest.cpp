#include "Problems.h"

#include "dtc/Plan/Plan/Padding.h"
#include "dtc/Plan/Predict/Predict.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::RuleBuilder;

/// The header's example, with arithmetic in between: 8 samples of 64 features, 1002 in the middle.
struct Hidden {
  Hidden() {
    x = build.argument(ValueKind::Input, {8, 1, 64});
    w = build.argument(ValueKind::Parameter, {64, 1002});
    v = build.argument(ValueKind::Parameter, {1002, 64});
    problem = build.finish({build.contract(build.pointwise(build.contract(x, w)), v)}, 8);
  }
  ProblemBuilder build;
  ValueId x, w, v;
  Problem problem;
};

TEST(Padding, OfFeaturesIsFoundInBothProducts) {
  Hidden hidden;
  Problem &problem = hidden.problem;
  markPadding(problem, {{hidden.w, {64, 1000}}, {hidden.v, {1000, 64}}});
  EXPECT_EQ(problem.parameterElements(), 2 * 64 * 1000);
  EXPECT_EQ(problem.paddingElements(), 2 * 64 * 2);
  ASSERT_EQ(problem.ops.size(), 3U);
  for (size_t product : {0, 2})
    EXPECT_EQ(problem.ops[product].padding, 2.0 * 8 * 2 * 64) << product;
  EXPECT_EQ(check(problem), "");
  EXPECT_EQ(*problemFromJson(toJson(problem), "problem"), problem);
}

TEST(Padding, IsCarriedByValuesToWhatHasNoPaddedWeight) {
  Hidden hidden;
  markPadding(hidden.problem, {{hidden.w, {64, 1000}}});
  EXPECT_EQ(hidden.problem.ops[2].padding, 2.0 * 8 * 2 * 64);
  EXPECT_EQ(hidden.problem.values[hidden.v].padding, 0) << "its file has all rows";
}

TEST(Padding, IsNoneOfAProductWithoutIt) {
  ProblemBuilder build; // odd sizes, by which a product and a quotient round
  const ValueId x = build.argument(ValueKind::Input, {8, 1, 99991});
  const ValueId w = build.argument(ValueKind::Parameter, {99991, 999001});
  const ValueId unused = build.argument(ValueKind::Parameter, {4});
  Problem problem = build.finish({build.contract(x, w)}, 8);
  markPadding(problem, {{unused, {3}}});
  EXPECT_EQ(problem.paddingElements(), 1);
  EXPECT_EQ(problem.ops.at(0).padding, 0);
}

TEST(Padding, IsNoneWhereNothingIsPadded) {
  Hidden hidden;
  const Problem before = hidden.problem;
  markPadding(hidden.problem, {});
  EXPECT_EQ(hidden.problem, before);
  EXPECT_EQ(before.paddingElements(), 0);
}

TEST(Padding, IsToldApartFromTheModelsFlops) {
  Hidden own, padded;
  markPadding(padded.problem, {{padded.w, {64, 1000}}, {padded.v, {1000, 64}}});
  const SearchResult of = plan(own.problem, 2, "dp=2"), with = plan(padded.problem, 2, "dp=2");
  const double flops = of.predicted.modelFlops;
  EXPECT_EQ(of.predicted.paddingFlops, 0);
  EXPECT_EQ(with.predicted.modelFlops, flops * 1000 / 1002);
  EXPECT_EQ(with.predicted.paddingFlops, flops * 2 / 1002);
  EXPECT_EQ(with.predicted.stepSeconds, of.predicted.stepSeconds) << "it is computed all the same";
  EXPECT_EQ(with.predicted.memory, of.predicted.memory);
}

TEST(Padding, GrowsWithTheBatch) {
  Hidden hidden;
  markPadding(hidden.problem, {{hidden.w, {64, 1000}}, {hidden.v, {1000, 64}}});
  auto twice = rebatched(hidden.problem, ProblemFacts(hidden.problem), 16);
  ASSERT_TRUE(twice) << twice.error().message;
  EXPECT_EQ(twice->ops[0].padding, 2.0 * 16 * 2 * 64);
  EXPECT_EQ(twice->paddingElements(), hidden.problem.paddingElements());
}

/// A product that makes four heads of eight elements, of which files have three; two queries share
/// each, which a reshape counts in one dimension of 8 heads.
TEST(Padding, OfHeadsIsThatOfAllThatShareThem) {
  Problem problem;
  auto value = [&](ValueKind kind, std::vector<int64_t> shape) {
    Value made;
    made.kind = kind;
    made.name = "v" + std::to_string(problem.values.size());
    made.shape = std::move(shape);
    problem.values.push_back(made);
    return static_cast<ValueId>(problem.values.size()) - 1;
  };
  const ValueId w = value(ValueKind::Parameter, {4, 2, 8}), x = value(ValueKind::Input, {16, 8, 8});
  problem.arguments = 2;
  const ValueId flat = value(ValueKind::Activation, {8, 8}), y = value(ValueKind::Activation, {16});
  Op reshape, product;
  reshape.rule = RuleBuilder::reshape({4, 2, 8}, {8, 8});
  reshape.operands = {w};
  reshape.results = {flat};
  RuleBuilder rule(2, 1);
  auto samples = rule.factor(16), heads = rule.factor(8), size = rule.factor(8);
  rule.operandDim(0, samples).operandDim(0, heads).operandDim(0, size);
  rule.operandDim(1, heads).operandDim(1, size).resultDim(0, samples);
  product.rule = rule.build();
  product.operands = {x, flat};
  product.results = {y};
  product.flops = 2.0 * 16 * 8 * 8;
  problem.ops = {reshape, product};
  markPadding(problem, {{w, {3, 2, 8}}});
  EXPECT_EQ(problem.paddingElements(), 2 * 8);
  EXPECT_EQ(problem.ops[1].padding, 2.0 * 16 * 2 * 8);
}
