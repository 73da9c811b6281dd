// The shardings that experts use are found unaided.
#include "Problems.h"

#include "dtc/Plan/Shard/OpBundles.h"

#include <map>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::StepKind;

/// Calls by kind of the collectives over tp whose buffer has at least `bytes`.
static std::map<StepKind, int64_t> large(const SearchResult &result, int64_t bytes) {
  std::map<StepKind, int64_t> counts;
  for (const CollectiveUse &use : result.predicted.collectives)
    if (use.axis == "tp" && use.bytes >= bytes)
      counts[use.kind] += use.count;
  return counts;
}

/// The factors of an op's choice that split over all of tp, by the dimensions of
/// its first operand in which they occur.
static bool splitsVocabulary(const Problem &problem, const Plan &plan, const std::string &name) {
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (problem.ops[i].name == name) {
      const auto &factors = problem.ops[i].rule->operands[0].back();
      return plan.mesh.size(plan.ops[i].factors[factors[0]]) == plan.degrees.tp;
    }
  return false;
}

constexpr int64_t kActivation = int64_t{2048} * 4096 * 4; // of the test problems, bytes

TEST(Sharding, GptUnderTensorParallelismIsMegatrons) {
  Problem problem = load("gpt");
  SearchResult result = plan(problem, 4, "tp=4");
  auto sharding = [&](const char *name) { return shardingOf(problem, result.plan, name); };
  EXPECT_EQ(result.optimalityGap, 0);
  // The fused projection [k,3,h,e] is split by heads, and so is what comes after.
  EXPECT_EQ(sharding("h.0.attn.c_attn.weight"), R"([{}, {}, {"tp"}, {}])");
  EXPECT_EQ(sharding("h.0.attn.c_attn.bias"), R"([{}, {"tp"}, {}])");
  EXPECT_EQ(sharding("h.0.attn.c_proj.weight"), R"([{"tp"}, {}, {}])");
  EXPECT_EQ(sharding("h.0.mlp.c_fc.weight"), R"([{}, {"tp"}])");
  EXPECT_EQ(sharding("h.0.mlp.c_fc.bias"), R"([{"tp"}])");
  EXPECT_EQ(sharding("h.0.mlp.c_proj.weight"), R"([{"tp"}, {}])");
  // Embedding and loss by vocabulary.
  EXPECT_EQ(sharding("wte.weight"), R"([{"tp"}, {}])");
  EXPECT_TRUE(splitsVocabulary(problem, result.plan, "dtc.cross_entropy"));
  // One reduce-scatter and all-gather each, forward and backward, for attention,
  // MLP, and the embedding with the head: an all-reduce taken apart.
  auto counts = large(result, kActivation / 4);
  EXPECT_EQ(counts,
            (std::map<StepKind, int64_t>{{StepKind::ReduceScatter, 6}, {StepKind::AllGather, 6}}));
  EXPECT_TRUE(result.plan.degrees.sp);
}

TEST(Sharding, WhatFeedsANormalizationIsAKindOfItsOwn) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {2, 64, 32});
  for (int i = 0; i < 2; ++i)
    x = builder.softmax(builder.pointwise(builder.pointwise(x)));
  Problem problem = builder.finish({builder.pointwise(x)}, 2);
  auto areAlike = [&] {
    OpBundles bundles(problem, ProblemFacts(problem));
    return bundles.bundles[1].kind == bundles.bundles[4].kind;
  };
  EXPECT_TRUE(areAlike());
  problem.ops[2].kind = OpKind::Normalization;
  EXPECT_FALSE(areAlike());
}

TEST(Sharding, GptWithoutSequenceParallelismMovesNoMore) {
  Problem problem = load("gpt");
  SearchResult result = plan(problem, 4, "tp=4,sp=off");
  EXPECT_FALSE(result.plan.degrees.sp);
  auto sharding = [&](const char *name) { return shardingOf(problem, result.plan, name); };
  EXPECT_EQ(sharding("h.0.attn.c_attn.weight"), R"([{}, {}, {"tp"}, {}])");
  EXPECT_EQ(sharding("h.0.mlp.c_fc.weight"), R"([{}, {"tp"}])");
  EXPECT_EQ(sharding("wte.weight"), R"([{"tp"}, {}])");
  auto counts = large(result, kActivation / 4);
  int64_t halves = counts[StepKind::ReduceScatter] + counts[StepKind::AllGather] +
                   2 * counts[StepKind::AllReduce];
  EXPECT_EQ(halves, 12) << "three all-reduces each way, or their halves";
  // Normalizations and the residual stream that they read are whole on every rank.
  int64_t norms = 0;
  for (size_t id = 0; id < problem.ops.size(); ++id)
    if (problem.ops[id].kind == OpKind::Normalization) {
      ++norms;
      for (const auto &axes : result.plan.ops[id].factors)
        EXPECT_EQ(result.plan.mesh.size(axes), 1) << problem.ops[id].location;
    }
  EXPECT_GT(norms, 0);
}

static void expectLlama(const char *name, const char *keys) {
  Problem problem = load(name);
  SearchResult result = plan(problem, 4, "tp=4");
  auto sharding = [&](const char *weight) {
    std::string text = shardingOf(problem, result.plan, weight);
    // Written as if tp were one axis.
    for (size_t at; (at = text.find(R"("tp.0", "tp.1")")) != std::string::npos;)
      text.replace(at, 14, R"("tp")");
    return text;
  };
  EXPECT_EQ(result.optimalityGap, 0);
  EXPECT_EQ(sharding("layers.0.self_attn.q_proj.weight"), R"([{"tp"}, {}, {}])");
  EXPECT_EQ(sharding("layers.0.self_attn.k_proj.weight"), keys);
  EXPECT_EQ(sharding("layers.0.self_attn.v_proj.weight"), keys);
  EXPECT_EQ(sharding("layers.0.mlp.gate_proj.weight"), R"([{"tp"}, {}])");
  EXPECT_EQ(sharding("layers.0.mlp.up_proj.weight"), R"([{"tp"}, {}])");
  EXPECT_EQ(sharding("layers.0.mlp.down_proj.weight"), R"([{}, {"tp"}])");
  EXPECT_EQ(sharding("lm_head.weight"), R"([{"tp"}, {}])");
  EXPECT_TRUE(splitsVocabulary(problem, result.plan, "dtc.cross_entropy"));
  // The gradients of q, k and v meet before one reduction. The untied embedding
  // is split by columns, which moves less than by rows. Attention and MLP take
  // their all-reduces apart; where nothing stands between the halves, one call
  // is quicker than two.
  auto counts = large(result, kActivation);
  EXPECT_GE(counts[StepKind::ReduceScatter], 4);
  EXPECT_EQ(counts[StepKind::ReduceScatter], counts[StepKind::AllGather]);
  EXPECT_EQ(counts[StepKind::ReduceScatter] + counts[StepKind::AllReduce], 5);
}

TEST(Sharding, LlamaUnderTensorParallelismIsMegatrons) {
  expectLlama("llama", R"([{"tp"}, {}, {}])");
}

TEST(Sharding, FewerKeyValueHeadsThanRanks) {
  // 2 heads are split by tp.0; each is shared by two ranks, which halve the work
  // of projecting to it.
  expectLlama("llama_kv2", R"([{"tp.0"}, {"tp.1"}, {}])");
}

TEST(Sharding, DataParallelismCommunicatesGradientsOnly) {
  Problem problem = load("gpt");
  // Two samples, so that there is something to split.
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {8, 16, 32});
  ValueId w = builder.argument(ValueKind::Parameter, {32, 64});
  Problem forward = builder.finish({builder.pointwise(builder.contract(x, w))}, 8);
  SearchResult result = plan(forward, 4, "dp=4");
  EXPECT_TRUE(result.predicted.collectives.empty());
  EXPECT_EQ(shardingOf(forward, result.plan, "a0"), R"([{"dp"}, {}, {}])");
  EXPECT_EQ(shardingOf(forward, result.plan, "a1"), "[{}, {}]");
}
