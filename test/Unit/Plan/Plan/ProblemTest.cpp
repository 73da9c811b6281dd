#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

TEST(Problem, SurvivesWritingAndReading) {
  for (const char *name : {"gpt", "llama", "llama_kv2"}) {
    Problem problem = load(name);
    ASSERT_FALSE(problem.ops.empty());
    problem.ops[3].scratch = 12;
    problem.ops[3].keepRounds = true;
    problem.ops[3].causal = true;
    problem.ops[3].groupedExperts = 0;
    for (Op &op : problem.ops)
      if (op.kind == OpKind::Attention) {
        op.causal = true;
        op.window = 128;
        op.decomposed = true;
        op.workspace = {1024, 132, 48, 128};
        op.partAlignment = 8;
      } else if (op.kind == OpKind::Elementwise) {
        op.inProduct = true;
        op.dear = !op.dear;
      } else if (op.kind == OpKind::Contraction) {
        op.widened = true;
      }
    auto again = problemFromJson(toJson(problem), "again.json");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, problem) << name;
  }
}

TEST(Problem, RefusesFilesThatAreNotProblems) {
  EXPECT_FALSE(problemFromJson("", "p.json"));
  EXPECT_FALSE(problemFromJson("{", "p.json"));
  EXPECT_FALSE(problemFromJson("{}", "p.json"));
  EXPECT_FALSE(problemFromJson("[1, 2]", "p.json"));
  std::string text = toJson(load("gpt"));
  EXPECT_FALSE(problemFromJson(text.substr(0, text.size() / 2), "p.json"));
  EXPECT_TRUE(problemFromJson("x", "p.json").error().message.starts_with("p.json: "));
  for (const char *name : {"\"contraction\"", "\"f32\"", "\"parameter\"", "\"reduction\"",
                           "\"weight_grad\"", "\"gradient\""}) {
    std::string broken = text;
    broken.replace(broken.find(name), std::string(name).size(), "\"nonsense\"");
    auto read = problemFromJson(broken, "p.json");
    ASSERT_FALSE(read) << name;
    EXPECT_NE(read.error().message.find("unknown name: \"nonsense\""), std::string::npos);
  }
}

static Op &firstOf(Problem &problem, OpKind kind) {
  return *std::ranges::find(problem.ops, kind, &Op::kind);
}

static void expectBroken(void (*mutate)(Problem &), const std::string &message) {
  Problem problem = load("gpt");
  ASSERT_EQ(check(problem), "");
  mutate(problem);
  EXPECT_NE(check(problem).find(message), std::string::npos) << check(problem);
}

static void expectBrokenRule(void (*change)(dtc::sharding::ShardingRule &),
                             const std::string &message) {
  Problem problem = load("gpt");
  dtc::sharding::ShardingRule rule = problem.ops[2].rule;
  change(rule);
  problem.ops[2].rule = std::move(rule);
  EXPECT_NE(check(problem).find(message), std::string::npos) << check(problem);
}

using Reads = std::vector<dtc::sharding::DimRead>;

static void expectBrokenReads(void (*change)(Reads &)) {
  Problem problem = load("gpt");
  auto op = std::ranges::find_if(problem.ops, [](const Op &op) { return !op.reads.empty(); });
  ASSERT_NE(op, problem.ops.end());
  change(op->reads);
  EXPECT_NE(check(problem).find("reads what its operand hasn't: "), std::string::npos)
      << check(problem);
}

TEST(Problem, CheckFindsWhatDoesNotAgree) {
  expectBroken([](Problem &p) { p.ops[2].operands[0] = 100000; }, "operand is not defined before");
  expectBroken([](Problem &p) { p.ops[2].operands[0] = -1; }, "operand is not defined before");
  expectBroken([](Problem &p) { p.ops[2].groupedExperts = 100; },
               "factor of grouped experts is none of the rule: 100");
  expectBroken([](Problem &p) { p.ops[2].window = 1; }, "window is of causal attention alone: 1");
  expectBroken([](Problem &p) { p.ops[2].decomposed = true; }, "only attention is decomposed: ");
  expectBroken([](Problem &p) { firstOf(p, OpKind::Contraction).dear = true; },
               "only arithmetic is dear: ");
  expectBroken([](Problem &p) { p.ops[2].partAlignment = 8; },
               "parts of tensors are of attention alone: ");
  expectBroken([](Problem &p) { firstOf(p, OpKind::Contraction).inProduct = true; },
               "is no part of a product: ");
  expectBroken([](Problem &p) { firstOf(p, OpKind::Elementwise).widened = true; },
               "only products, sums and attention are widened: ");
  expectBrokenReads([](Reads &reads) { reads.pop_back(); });
  expectBrokenReads([](Reads &reads) { reads.back().dim = 7; });
  expectBrokenReads([](Reads &reads) { reads.back().dim = -2; });
  expectBrokenReads([](Reads &reads) { reads.back() = {-1, 0, 1}; });
  expectBrokenReads([](Reads &reads) { reads.back().start = -1; });
  expectBrokenReads([](Reads &reads) { reads.back().start = 1; });
  expectBrokenReads([](Reads &reads) { reads.back().start = int64_t{1} << 62; });
  expectBrokenReads([](Reads &reads) { reads.back().step = 0; });
  expectBrokenReads([](Reads &reads) { reads.back().step = 2; });
  expectBrokenReads([](Reads &reads) { reads.back().step = int64_t{1} << 62; });
  expectBroken([](Problem &p) { firstOf(p, OpKind::Elementwise).reads = {{0}, {1}, {2}}; },
               "reads what its operand hasn't: ");
  expectBroken([](Problem &p) { std::swap(p.ops[2], p.ops[9]); }, "operand is not defined before");
  expectBroken([](Problem &p) { p.ops[2].results = p.ops[1].results; }, "result is no new value");
  expectBroken([](Problem &p) { p.ops[2].operands.pop_back(); }, "differ in the number");
  expectBrokenRule([](dtc::sharding::ShardingRule &r) { r.operands[0].pop_back(); },
                   "dimensions for value");
  expectBrokenRule([](dtc::sharding::ShardingRule &r) { r.factors[0].size = 3; }, "multiply to");
  expectBrokenRule([](dtc::sharding::ShardingRule &r) { r.results[0][1] = {77}; },
                   "factor that it lacks");
  expectBrokenRule([](dtc::sharding::ShardingRule &r) { r.linear = {{5}}; },
                   "linear set names no operand");
  expectBroken([](Problem &p) { p.ops[2].forward = 90; }, "forward op does not stand before");
  expectBroken([](Problem &p) { p.results[0].value = 100000; }, "function result");
  expectBroken([](Problem &p) { p.values[0].shape[0] = 0; }, "dimension of size 0");
  expectBroken([](Problem &p) { p.arguments = 2; }, "arguments must be the first values");
  expectBroken([](Problem &p) { p.arguments = -2; }, "out of range");
  expectBroken([](Problem &p) { p.numMicrobatches = 0; }, "must be positive");
}

TEST(Problem, FactsFollowTheBatchThroughTheGraph) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {4, 8, 16});
  ValueId w = builder.argument(ValueKind::Parameter, {16, 32});
  ValueId y = builder.pointwise(builder.contract(x, w));
  Problem problem = builder.finish({y}, 4);
  ProblemFacts facts(problem);
  EXPECT_EQ(facts.batchDim[x], 0);
  EXPECT_EQ(facts.batchDim[w], -1);
  EXPECT_EQ(facts.batchDim[y], 0);
  EXPECT_EQ(facts.batchFactor, (std::vector<int>{0, 0}));
  EXPECT_TRUE(facts.isResult[y]);
}

TEST(Problem, FactsKnowWhatGradientsBelongTo) {
  Problem problem = load("gpt");
  ProblemFacts facts(problem);
  for (ValueId value = 0; value < problem.arguments; ++value) {
    int result = facts.gradientResult[value];
    ASSERT_EQ(result >= 0, problem.values[value].kind == ValueKind::Parameter);
    if (result < 0)
      continue;
    EXPECT_EQ(problem.results[result].name, problem.values[value].name);
    EXPECT_EQ(facts.gradientOf[problem.results[result].value], value);
  }
  // Every sum of gradients belongs to a value of its shape.
  int sums = 0;
  for (const Op &op : problem.ops) {
    if (op.kind != OpKind::GradientSum)
      continue;
    ++sums;
    ValueId of = facts.gradientOf[op.results[0]];
    ASSERT_GE(of, 0);
    EXPECT_EQ(problem.values[of].shape, problem.values[op.results[0]].shape);
  }
  EXPECT_GE(sums, 3) << "two residuals and the tied embedding";
}

// Residual connections pass the gradient of a layer's output on to its input.
TEST(Problem, SumsAlongAResidualStreamBelongToTheirOwnLayers) {
  Problem problem = transformer({3, 64, 4, 32, 8, 256});
  ProblemFacts facts(problem);
  int sums = 0;
  for (const Op &op : problem.ops) {
    if (op.kind != OpKind::GradientSum || op.forward < 0)
      continue;
    ++sums;
    EXPECT_EQ(facts.gradientOf[op.results[0]], problem.ops[op.forward].results[0]);
  }
  EXPECT_GE(sums, 4);
}

TEST(Problem, KnowsWhatIsStored) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {4, 16, 64});
  ValueId w = builder.argument(ValueKind::Parameter, {64, 64});
  ValueId y = builder.contract(x, w);
  ValueId once = builder.pointwise(y);                    // read by one kernel
  ValueId repeated = builder.pointwise(x);                // computed by each reader again
  ValueId sum = builder.add(repeated, once);              // of two tensors, read twice
  ValueId product = builder.contract(sum, w);
  ValueId operand = builder.pointwise(product);           // read by a product
  ValueId last = builder.contract(operand, w);
  ValueId end = builder.add(builder.add(sum, repeated), last);
  Problem problem = builder.finish({end}, 4);
  ProblemFacts facts(problem);
  for (ValueId value : {y, sum, product, operand, last, end})
    EXPECT_TRUE(facts.materialized[value]) << value;
  EXPECT_FALSE(facts.materialized[once]);
  EXPECT_FALSE(facts.materialized[repeated]);
}
