// What ops do on GPUs under different software.
#include "Problems.h"

#include "dtc/Plan/Cost/OpWork.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::Mesh;
using dtc::sharding::OpSharding;

namespace {

/// Sums over the ops of a problem on one device.
struct Totals {
  double kernels = 0, bytes = 0, flops = 0, seconds = 0, saved = 0;
};

} // namespace

static Totals totals(const Problem &problem, const Software &software,
                     std::optional<OpKind> kind = {}, const char *clusterName = "a100-80") {
  Cluster on = cluster(clusterName);
  on.software = software;
  ProblemFacts facts(problem);
  CostModel model(on, 1);
  OpWork work(problem, facts, model);
  Mesh mesh;
  Totals sum;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    if (kind && problem.ops[id].kind != *kind)
      continue;
    OpSharding whole;
    whole.factors.resize(problem.ops[id].rule->factors.size());
    LocalWork local = work.work(static_cast<OpId>(id), whole, mesh);
    sum.kernels += double(local.kernels);
    sum.bytes += local.bytes;
    sum.flops += local.flops;
    sum.seconds += model.opSeconds(local);
    sum.saved += work.savedBytes(static_cast<OpId>(id));
  }
  return sum;
}

TEST(OpWork, EagerProgramsRunEveryElementwiseOp) {
  Problem problem = load("llama");
  Totals compiled = totals(problem, {}), eager = totals(problem, {.compiled = false});
  EXPECT_GT(eager.kernels, compiled.kernels);
  EXPECT_GT(eager.bytes, compiled.bytes);
  EXPECT_GT(eager.seconds, compiled.seconds);
  EXPECT_EQ(eager.flops, compiled.flops);
}

/// Ranks that divide the queries of a tile need as much as one with all of them.
TEST(OpWork, LibrariesTakeWholeTiles) {
  Problem problem = load("llama");
  const Cluster on = cluster("a100-80");
  CostModel model(on, 1);
  const Mesh mesh{{{"cp", "cp", 2}}};
  auto bytesOf = [&](int split, int64_t tile) -> double {
    for (Op &op : problem.ops)
      op.workspace = {.fixed = 8, .perQuery = 4, .perSharedKey = 2, .tile = tile};
    ProblemFacts facts(problem);
    OpWork work(problem, facts, model);
    for (size_t id = 0; id < problem.ops.size(); ++id)
      if (problem.ops[id].kind == OpKind::Attention) {
        OpSharding choice;
        choice.factors.resize(problem.ops[id].rule->factors.size());
        if (split >= 0)
          choice.factors[split] = {0};
        return work.workspaceBytes(static_cast<OpId>(id), choice, mesh);
      }
    return 0;
  };
  // 8 x 4 heads of 2,048 queries, of which four each share keys.
  EXPECT_EQ(bytesOf(-1, 1), 8 + 32 * 2048 * (4 + 2));
  EXPECT_EQ(bytesOf(-1, 4096), 8 + 32 * 4096 * (4 + 2));
  EXPECT_EQ(bytesOf(0, 4096), 8 + 16 * 4096 * (4 + 2)) << "heads";
  EXPECT_EQ(bytesOf(2, 1), 8 + 32 * (1024 * 4 + 2048 * 2)) << "queries";
  EXPECT_EQ(bytesOf(2, 4096), bytesOf(-1, 4096)) << "queries within a tile";
}

TEST(OpWork, ProductsAddTheirBias) {
  Problem problem = load("gpt");
  ProblemFacts facts(problem);
  Cluster on = cluster("a100-80");
  on.software.compiled = false;
  CostModel model(on, 1);
  OpWork work(problem, facts, model);
  int biases = 0;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    if (op.kind != OpKind::Elementwise || op.backward || op.operands.size() != 2)
      continue;
    OpId producer = facts.producer[op.operands[0]];
    bool afterProduct = producer >= 0 && problem.ops[producer].kind == OpKind::Contraction;
    OpSharding whole;
    whole.factors.resize(op.rule->factors.size());
    if (work.work(static_cast<OpId>(id), whole, Mesh()).kernels == 0) {
      EXPECT_TRUE(afterProduct) << op.location;
      ++biases;
    }
  }
  EXPECT_GE(biases, 4) << "of c_attn, c_proj, c_fc and c_proj";
}

TEST(OpWork, SoftwareWithoutFusedKernelsPaysTheirTraffic) {
  Problem gpt = load("gpt");
  const Software other{.fusedSoftmax = false}; // not dtc's own
  Totals fused = totals(gpt, other, OpKind::Normalization);
  Totals apart = totals(gpt, {.fusedNorm = false}, OpKind::Normalization);
  EXPECT_EQ(apart.bytes, 8 * fused.bytes);
  EXPECT_GT(apart.kernels, fused.kernels);
  EXPECT_GT(totals(gpt, {.fusedLoss = false}, OpKind::Loss).seconds,
            2 * totals(gpt, other, OpKind::Loss).seconds);
  EXPECT_EQ(totals(gpt, {.fusedNorm = false}, OpKind::Loss).seconds,
            totals(gpt, other, OpKind::Loss).seconds);
}

TEST(OpWork, MetricsPassOverTheLogitsInSinglePrecision) {
  Problem gpt = load("gpt");
  const Op &loss = *std::find_if(gpt.ops.begin(), gpt.ops.end(), [](const Op &op) {
    return op.kind == OpKind::Loss && !op.backward;
  });
  const Value &logits = gpt.values[loss.operands[0]];
  Totals none = totals(gpt, {.fusedSoftmax = false}, OpKind::Loss),
         two = totals(gpt, {.lossMetrics = 2}, OpKind::Loss);
  EXPECT_EQ(two.bytes - none.bytes,
            2 * double(logits.elements()) * (byteSize(logits.type) + 5 * 4));
  EXPECT_EQ(two.kernels - none.kernels, 6);
  EXPECT_EQ(two.saved, none.saved);
}

/// 12 passes over queries and keys forward, and 17 back; of GPT's, which turns none, none.
TEST(OpWork, RotaryEmbeddingsThatArentFusedPassOverQueriesAndKeys) {
  for (const char *name : {"llama", "gpt"}) {
    Problem problem = load(name);
    Cluster on = cluster("a100-80");
    on.software.fusedRotary = false;
    ProblemFacts facts(problem);
    CostModel model(on, 1);
    OpWork work(problem, facts, model);
    int seen = 0;
    for (size_t id = 0; id < problem.ops.size(); ++id) {
      const Op &op = problem.ops[id];
      if (op.kind != OpKind::Attention)
        continue;
      OpSharding whole;
      whole.factors.resize(op.rule->factors.size());
      LocalWork local = work.work(static_cast<OpId>(id), whole, Mesh());
      const Op &attention = op.backward ? problem.ops[op.forward] : op;
      auto rotated = double(problem.values[attention.operands[0]].bytes() +
                            problem.values[attention.operands[1]].bytes());
      bool turns = std::string(name) == "llama";
      EXPECT_EQ(local.passes, turns ? (op.backward ? 18 : 24) : 0) << name;
      EXPECT_EQ(local.passedBytes, turns ? (op.backward ? 17 : 12) * rotated : 0) << name;
      LocalWork fused = local;
      fused.passes = 0;
      fused.passedBytes = 0;
      double least = model.streamSeconds(local.passedBytes); // as one kernel
      EXPECT_GE(model.opSeconds(local) - model.opSeconds(fused), least) << name;
      ++seen;
    }
    EXPECT_EQ(seen, 2) << name;
  }
}

TEST(OpWork, UnfusedAttentionKeepsItsProbabilities) {
  Problem gpt = load("gpt");
  for (Value &value : gpt.values)
    if (value.type == DType::F32)
      value.type = DType::BF16;
  for (Op &op : gpt.ops)
    op.causal = op.kind == OpKind::Attention;
  EXPECT_EQ(totals(gpt, {}, OpKind::Attention).saved, 0);
  double scores = 32.0 * 2048 * 2048;
  EXPECT_NEAR(totals(gpt, {.flashAttention = 0}, OpKind::Attention).saved, 2 * scores, 1e-3 * scores);
  EXPECT_GT(totals(gpt, {.flashAttention = 0}, OpKind::Attention).seconds,
            1.5 * totals(gpt, {}, OpKind::Attention).seconds);
}

/// In f32, as the decomposed form has them. Other software has kernels of its own.
TEST(OpWork, OwnDecomposedAttentionKeepsItsScores) {
  Problem gpt = load("gpt");
  Totals whole = totals(gpt, {}, OpKind::Attention);
  for (Op &op : gpt.ops)
    op.decomposed = op.kind == OpKind::Attention;
  const double scores = 32.0 * 2048 * 2048;
  Totals apart = totals(gpt, {}, OpKind::Attention);
  EXPECT_EQ(whole.saved, 0);
  EXPECT_NEAR(apart.saved, 4 * scores, 1e-3 * 4 * scores);
  EXPECT_GT(apart.kernels, whole.kernels);
  EXPECT_GT(apart.seconds, whole.seconds);
  EXPECT_EQ(totals(gpt, {.flashAttention = 3}, OpKind::Attention).saved, 0);
}

/// A bias takes the place of its product, GELU is written beside it, and its gradient reads what
/// GELU has read.
TEST(OpWork, OwnProductsMakeWhatFollowsThem) {
  Problem gpt = load("gpt");
  for (Op &op : gpt.ops)
    op.inProduct = op.name == "dtc.activation" || op.name == "dtc.activation_grad";
  ProblemFacts facts(gpt);
  const Cluster own = cluster("a100-80");
  CostModel model(own, 1);
  OpWork work(gpt, facts, model);
  int seen = 0;
  for (size_t id = 0; id < gpt.ops.size(); ++id) {
    const Op &op = gpt.ops[id];
    if (!op.inProduct)
      continue;
    OpSharding whole;
    whole.factors.resize(op.rule->factors.size());
    LocalWork local = work.work(static_cast<OpId>(id), whole, Mesh());
    EXPECT_EQ(local.kernels, 0);
    EXPECT_EQ(local.bytes, double(gpt.values[op.results[0]].bytes()));
    ++seen;
  }
  EXPECT_EQ(seen, 2); // forward and back
  EXPECT_LT(totals(gpt, {}, OpKind::Elementwise).seconds,
            totals(load("gpt"), {}, OpKind::Elementwise).seconds);
  EXPECT_EQ(totals(gpt, {.fusedNorm = false}, OpKind::Elementwise).seconds,
            totals(load("gpt"), {.fusedNorm = false}, OpKind::Elementwise).seconds);
}

/// The library gives the gradient of a weight in bf16, which a kernel reads and writes in f32.
TEST(OpWork, AKernelWidensWhatALibraryRounds) {
  Problem gpt = load("gpt");
  const auto id = static_cast<OpId>(std::find_if(gpt.ops.begin(), gpt.ops.end(),
                                                 [&](const Op &op) {
                                                   return op.kind == OpKind::Contraction &&
                                                          ProblemFacts(gpt).isResult[op.results[0]];
                                                 }) -
                                    gpt.ops.begin());
  Op &op = gpt.ops[id];
  for (ValueId operand : op.operands)
    gpt.values[operand].type = DType::BF16;
  const auto wide = double(gpt.values[op.results[0]].bytes());
  OpSharding whole;
  whole.factors.resize(op.rule->factors.size());
  const CostModel model(cluster("a100-80"), 1);
  auto workOf = [&] {
    const ProblemFacts facts(gpt);
    return OpWork(gpt, facts, model).work(id, whole, Mesh());
  };
  const LocalWork before = workOf();
  op.widened = true;
  const LocalWork after = workOf();
  EXPECT_EQ(before.passes, 0);
  EXPECT_EQ(after.passes, 1);
  EXPECT_EQ(after.passedBytes, 1.5 * wide);
  EXPECT_EQ(after.bytes, before.bytes - wide / 2);
  EXPECT_GT(model.opSeconds(after), model.opSeconds(before));
}

/// A sum goes on to its norm, and a norm's gradient to a sum. With 3 and 6 passes of their own they
/// would move 5 and 8 tensors; what columns read once more makes it 8.
TEST(OpWork, OwnKernelsShareWhatTheyReadAndMake) {
  const Problem llama = load("llama");
  const ProblemFacts facts(llama);
  const Cluster own = cluster("a100-80");
  const CostModel model(own, 1);
  const OpWork work(llama, facts, model);
  auto of = [&](OpId id) {
    OpSharding whole;
    whole.factors.resize(llama.ops[id].rule->factors.size());
    return work.work(id, whole, Mesh());
  };
  const int64_t tensor = llama.values[llama.ops[32].results[0]].bytes();
  auto tensors = [&](double bytes) { return std::llround(bytes / double(tensor)); };
  EXPECT_EQ(tensors(of(32).bytes + of(33).bytes), 4);
  EXPECT_EQ(of(32).kernels + of(33).kernels, 1);
  const double sums = work.sumSeconds(54, tensor) + work.sumSeconds(56, tensor);
  EXPECT_NEAR(sums, model.streamSeconds(5 * double(tensor)), 1e-9);
  EXPECT_EQ(tensors(of(55).bytes), 3);
}

TEST(OpWork, ProcessorsRunWhatWasCompiled) {
  Problem gpt = load("gpt");
  Software other{.flashAttention = 0, .fusedNorm = false, .fusedSoftmax = false, .compiled = false};
  Totals plain = totals(gpt, {}, {}, "cpu"), same = totals(gpt, other, {}, "cpu");
  EXPECT_EQ(plain.seconds, same.seconds);
  EXPECT_EQ(plain.saved, same.saved);
}
