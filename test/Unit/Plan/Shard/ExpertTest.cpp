// Mixtures whose rows find their experts at run time. The one in mixtral.json has two layers with 8
// experts, 8 samples of 4,096 tokens and two choices of each.
#include "Planner.h"

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Cost/ProductOverlap.h"
#include "dtc/Plan/Plan/SharedRows.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Shard/Experts.h"

#include <algorithm>
#include <map>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::AxisList;
using dtc::sharding::Mesh;
using dtc::sharding::OpSharding;
using dtc::sharding::StepKind;

namespace {

/// mixtral.json on 8 H100.
struct Mixture {
  Problem problem = load("mixtral");
  ProblemFacts facts{problem};
  CostModel model{cluster("dgx-h100"), 8};
  OpWork work{problem, facts, model};
};

} // namespace

static OpId find(const Problem &problem, const std::string &name) {
  for (size_t id = 0; id < problem.ops.size(); ++id)
    if (problem.ops[id].name == name)
      return static_cast<OpId>(id);
  ADD_FAILURE() << "no op " << name;
  return 0;
}

TEST(Experts, OfRowsThatChooseThemAreInGroupedProducts) {
  Problem problem = load("mixtral");
  Experts experts(problem, ProblemFacts(problem));
  EXPECT_EQ(experts.mostRanks, 8);
  EXPECT_TRUE(experts.areGrouped);
  EXPECT_FALSE(Experts(load("moe"), ProblemFacts(load("moe"))).areGrouped);
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    EXPECT_EQ(experts.runs[id], op.name == "dtc.grouped_contract" && !op.backward) << op.name;
    if (op.name == "dtc.softmax" || op.name == "dtc.attention")
      EXPECT_EQ(experts.factor[id], -1);
  }
}

/// As beside adapters, which no expert has.
TEST(Experts, AreSharedOutWhereTheyAreFrozen) {
  for (const char *name : {"moe", "mixtral"}) {
    Problem problem = load(name);
    const int64_t ranks = Experts(problem, ProblemFacts(problem)).mostRanks;
    for (Value &value : problem.values)
      value.trainable = false;
    EXPECT_GT(ranks, 1) << name;
    EXPECT_EQ(Experts(problem, ProblemFacts(problem)).mostRanks, ranks) << name;
  }
}

/// Each rank has one of the experts of every layer. In each layer, in both passes, it is sent the
/// rows for it and sends them back: 4,096 tokens, two choices of each, 4,096 numbers in bf16.
TEST(Experts, AreSharedOutAndSentTheirRows) {
  Problem problem = load("mixtral");
  SearchResult result = best(problem, 8, "ep=8,dp=1,tp=1,pp=1,zero=0,micro_batch=1,recompute=none");
  for (const char *name : {"up", "up_gate", "down"})
    EXPECT_EQ(shardingOf(result.problem, result.plan, std::string("layers.1.") + name),
              R"([{"ep"}, {}, {}])");
  EXPECT_EQ(shardingOf(result.problem, result.plan, "layers.1.q"), "[{}, {}, {}]");
  int64_t sent = 0;
  for (const CollectiveUse &use : result.predicted.collectives)
    if (use.kind == StepKind::AllToAll && use.axis == "ep" && use.bytes == 4096 * 2 * 4096 * 2)
      sent += use.count;
  EXPECT_EQ(sent, 2 * 4);
  SearchResult whole = best(problem, 8, "dp=8,tp=1,pp=1,zero=0,micro_batch=1,recompute=none");
  // 3 x 8 x 4096 x 14336 parameters of each layer, of which a rank has an eighth.
  int64_t experts = int64_t{3} * 8 * 4096 * 14336 * 2;
  EXPECT_EQ(whole.predicted.stages[0].parameters - result.predicted.stages[0].parameters,
            experts / 8 * 7);
}

/// What one rank sends, by kind and axis: bytes of a call, and how many calls a step.
static std::map<std::pair<StepKind, std::string>, std::map<int64_t, int64_t>>
sentBy(const SearchResult &result) {
  std::map<std::pair<StepKind, std::string>, std::map<int64_t, int64_t>> sent;
  for (const CollectiveUse &use : result.predicted.collectives)
    sent[{use.kind, use.axis}][use.bytes] += use.count;
  return sent;
}

/// As in Megatron-Core each rank of cp dispatches the tokens that it has. The rows of a rank are
/// those of micro_batch * 4096 / cp tokens. All-to-alls are over ep, and cp ranks have a term each
/// of the experts' gradients.
TEST(Experts, AreSentTheRowsOfARanksPartOfTheSequence) {
  Problem problem = load("mixtral");
  const int64_t row = 4096 * 2, experts = int64_t{3} * 8 * 4096 * 14336;
  struct {
    int64_t dp, cp, ep, samples;
  } cases[] = {{2, 1, 4, 1}, {1, 2, 4, 1}, {1, 2, 4, 2}, {1, 4, 2, 2}, {2, 2, 2, 1}, {4, 2, 1, 1}};
  for (auto [dp, cp, ep, samples] : cases) {
    std::string spec = "tp=1,pp=1,zero=0,recompute=none,dp=" + std::to_string(dp) +
                       ",cp=" + std::to_string(cp) + ",ep=" + std::to_string(ep) +
                       ",micro_batch=" + std::to_string(samples);
    SearchResult result = best(problem, 8, spec);
    ASSERT_FALSE(result.plan.ops.empty());
    auto sent = sentBy(result);
    int64_t calls = result.plan.degrees.numMicrobatches;
    int64_t rows = samples * 4096 / cp * 2;
    std::map<int64_t, int64_t> exchanges;
    if (ep > 1)
      exchanges[rows * row] = 2 * 4 * calls;
    EXPECT_EQ((sent[{StepKind::AllToAll, "ep"}]), exchanges) << spec;
    // Keys and values of both layers alone are gathered over cp, nothing as large as rows.
    for (auto &[key, sizes] : sent)
      for (auto [bytes, count] : sizes)
        if (key.second == "cp" && key.first != StepKind::AllReduce)
          EXPECT_LE(bytes, samples * 4096 * row) << spec;
    std::string axes = cp == 1 ? "dp" : dp == 1 ? "cp" : "dp,cp";
    int64_t reduced = 0;
    for (auto [bytes, count] : sent[{StepKind::AllReduce, axes}])
      reduced += bytes * count;
    EXPECT_GE(reduced, 2 * experts / ep * 4) << spec;
    // The grouped products of a rank have its rows, and no other.
    Problem split = withSplitSequence(result.problem, cp);
    ProblemFacts facts(split);
    CostModel model(cluster("dgx-h100"), 8);
    OpWork work(split, facts, model);
    OpId product = find(split, "dtc.grouped_contract");
    LocalWork local = work.work(product, result.plan.ops[product], result.plan.mesh);
    EXPECT_EQ(local.batch, 8 / ep) << spec;
    EXPECT_EQ(local.batch * local.m, rows) << spec;
  }
}

/// Rows are in the order of the sequence's parts, then of the experts', so that ep finds its part in each.
TEST(Experts, HaveTheirRowsInPartsOfTheSequence) {
  Problem problem = load("mixtral"), split = withSplitSequence(problem, 4);
  EXPECT_EQ(check(split), "");
  std::map<std::string, std::string> rules; // the first of each
  for (const Op &op : split.ops)
    if (op.groupedExperts >= 0)
      rules.try_emplace(op.name + (op.backward == BackwardKind::WeightGrad ? " of weights" : ""),
                        op.rule->str());
  EXPECT_EQ(rules["dtc.dispatch"], "([a,(f b),e],[a,(f b)])->([a,(f c d),e]) "
                                   "{a=8,b=2048,c=8,d=256,e=4096,f=4} whole{b,d} linear{{0}}");
  EXPECT_EQ(rules["dtc.combine"], "([a,(f c d),e],[a,(f b)])->([a,(f b),e]) "
                                  "{a=8,b=2048,c=8,d=256,e=4096,f=4} whole{b,d} linear{{0}}");
  EXPECT_EQ(rules["dtc.grouped_contract"],
            "([b,(f a c),e],[a,d,e],[b,(f a c)])->([b,(f a c),d]) "
            "{a=8,b=8,c=256,d=14336,e=4096,f=4} reduce{e} linear{{0},{1}}");
  EXPECT_EQ(rules["dtc.grouped_contract of weights"],
            "([b,(f a c),d],[b,(f a c),e],[b,(f a c)])->([a,d,e]) "
            "{a=8,b=8,c=256,d=4096,e=14336,f=4} reduce{b,c,f} linear{{0},{1}}");
  // 8,192 rows a sample, 1,024 of each expert, can't be in three parts, nor those of an expert in 2,048.
  EXPECT_EQ(withSplitSequence(problem, 1), problem);
  for (int64_t parts : {3, 2048}) {
    Problem whole = withSplitSequence(problem, parts);
    for (size_t id = 0; id < problem.ops.size(); ++id)
      EXPECT_TRUE(problem.ops[id].groupedExperts < 0 || whole.ops[id] == problem.ops[id])
          << parts << " " << id;
  }
}

/// ep has the same experts in every part of the sequence only if cp splits it.
TEST(Experts, OfPartsOfASequenceAreVerified) {
  SearchResult result = best(load("mixtral"), 8, "cp=2,ep=4,dp=1,tp=1,pp=1,zero=0,recompute=none");
  ASSERT_FALSE(result.plan.ops.empty());
  auto read = planFromYaml(toYaml(result.plan, result.problem), "plan.yaml", result.problem);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, result.plan);
  Plan plan = result.plan;
  OpId id = find(result.problem, "dtc.grouped_contract");
  for (AxisList &axes : plan.ops[id].factors)
    std::erase(axes, result.plan.mesh.ofDegree("cp")[0]);
  std::vector<Violation> violations = verify(result.problem, plan, cluster("dgx-h100"));
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].op, id);
  EXPECT_EQ(violations[0].message,
            "dtc.grouped_contract: factor a of a compound dimension is split, but not "
            "completely the one before it: f");
}

/// Adds a constant that the rows between the products of both layers are multiplied with, as programs have that limit
/// what experts compute.
static void addConstant(Problem &problem) {
  Op constant;
  constant.name = "arith.constant";
  constant.kind = OpKind::Reindex;
  constant.forward = 0;
  for (Op &op : problem.ops)
    if (op.forward >= 0)
      ++op.forward;
  auto value = static_cast<ValueId>(problem.values.size());
  for (Op &op : problem.ops) {
    bool betweenProducts = op.name == "arith.mulf" && !op.backward &&
                           problem.values[op.results[0]].shape.back() == 14336;
    if (!betweenProducts)
      continue;
    if (constant.results.empty()) {
      problem.values.push_back(problem.values[op.operands[1]]);
      dtc::sharding::ShardingRule rule = *op.rule;
      rule.operands.clear();
      rule.linear.clear();
      constant.rule = dtc::sharding::SharedRule(rule);
      constant.results = {value};
    }
    ValueId replaced = op.operands[1];
    for (Op &reader : problem.ops)
      std::replace(reader.operands.begin(), reader.operands.end(), replaced, value);
  }
  problem.ops.insert(problem.ops.begin(), constant);
}

/// A constant is as whole on each rank as it needs: nobody sends it.
TEST(Experts, ReadConstantsWhereTheyAre) {
  Problem problem = load("mixtral");
  addConstant(problem);
  SearchResult result = best(problem, 8, "ep=8,dp=1,tp=1,pp=1,zero=0,micro_batch=1,recompute=none");
  bool sendsRows = false;
  for (const CollectiveUse &use : result.predicted.collectives) {
    EXPECT_FALSE(use.kind == StepKind::AllToAll && use.bytes == 8192 * 14336 * 2) << use.count;
    sendsRows |= use.kind == StepKind::AllToAll && use.bytes == 8192 * 4096 * 2;
  }
  EXPECT_TRUE(sendsRows);
}

TEST(Experts, DoTheWorkOfTheRowsThatThereAre) {
  Mixture mixture;
  Problem &problem = mixture.problem;
  const OpWork &work = mixture.work;
  Mesh mesh;
  mesh.axes.push_back({"ep", "ep", 8});
  OpId id = find(problem, "dtc.grouped_contract");
  OpSharding whole, shared;
  whole.factors.resize(problem.ops[id].rule->factors.size());
  shared = whole;
  shared.factors[problem.ops[id].groupedExperts] = {0};
  LocalWork all = work.work(id, whole, mesh), part = work.work(id, shared, mesh);
  EXPECT_EQ(all.flops, 2.0 * 8 * 8192 * 14336 * 4096);
  EXPECT_EQ(part.flops * 8, all.flops);
  EXPECT_EQ(all.batch, 8);
  EXPECT_EQ(part.batch, 1);
  EXPECT_EQ(part.m, 8 * 8192 / 8);
  EXPECT_EQ(part.n, 14336);
  EXPECT_EQ(part.k, 4096);
  // Experts and rows that can't be shared out evenly are a product, too.
  problem.ops[id].groupedExperts = -1;
  LocalWork uneven = work.work(id, whole, mesh);
  EXPECT_EQ(uneven.m, all.m);
  EXPECT_EQ(uneven.n, all.n);
  EXPECT_EQ(uneven.k, all.k);
}

/// Four experts on each of two ranks: rows are sorted by rank, and then by expert. With an expert a rank, or all of them
/// on one, once.
TEST(Experts, OfOneRankHaveTheirRowsSortedOnceMore) {
  Mixture mixture;
  Problem &problem = mixture.problem;
  const OpWork &work = mixture.work;
  for (const char *name : {"dtc.dispatch", "dtc.combine"}) {
    OpId id = find(problem, name);
    OpSharding whole;
    whole.factors.resize(problem.ops[id].rule->factors.size());
    auto over = [&](int64_t ranks) {
      Mesh mesh;
      mesh.axes.push_back({"ep", "ep", ranks});
      return work.work(id, whole, mesh);
    };
    EXPECT_GT(over(1).bytes, 2.0 * 8 * 8192 * 4096 * 2);
    EXPECT_EQ(over(1).kernels, 1);
    EXPECT_EQ(over(8).bytes, over(1).bytes);
    EXPECT_EQ(over(2).bytes, 2 * over(1).bytes);
    EXPECT_EQ(over(2).kernels, 2);
  }
}

TEST(Experts, OfMixturesAreSharedOutUnaided) {
  SearchResult result = best(load("mixtral"), 8, "pp=1");
  EXPECT_GT(result.plan.degrees.ep, 1) << summary(result.plan.degrees);
  SearchResult without = best(load("mixtral"), 8, "pp=1,ep=1");
  EXPECT_LT(result.predicted.stepSeconds, without.predicted.stepSeconds);
}

TEST(Experts, WhoseRowsHaveNoSlotsAreNotShared) {
  Problem problem = load("mixtral");
  const std::string message =
      "without slots, ranks can't share the rows that choose their experts at dtc.dispatch: ";
  EXPECT_EQ(whyRowsStayWhole(problem, {.ep = 2}), message + "ep=2");
  EXPECT_EQ(whyRowsStayWhole(problem, {.cp = 2}), message + "cp=2");
  EXPECT_EQ(whyRowsStayWhole(problem, {.dp = 2, .tp = 2}), "");
  EXPECT_EQ(whyRowsStayWhole(load("moe"), {.ep = 2}), "");
  for (const char *pin : {"ep=2", "cp=2"}) {
    SearchOutcome pinned = search(problem, cluster("dgx-h100"), {4, *parseSpec(pin)});
    ASSERT_FALSE(pinned);
    EXPECT_EQ(pinned.error().message, "no plan for 4 devices: " + message + pin);
  }
  SearchOutcome open = search(problem, cluster("dgx-h100"), {4, *parseSpec("auto")});
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_EQ(open->plan.degrees.ep, 1);
  EXPECT_EQ(open->plan.degrees.cp, 1);
}

/// Rows may be split among tensor-parallel ranks that all hold the whole of an expert; Megatron's ranks hold parts.
TEST(Experts, AreInPartsWhereWeightsStayAsTheyAreStored) {
  Problem problem = load("mixtral");
  problem.numMicrobatches = 128; // after which sums of whole experts' gradients don't count
  Cluster on = cluster("dgx-h100");
  const char *spec = "ep=8,tp=4,dp=1,pp=1,sp=on,zero=0,micro_batch=1,recompute=none";
  auto isSplit = [&](const char *name) {
    SearchResult result = best(problem, 32, spec, on);
    return shardingOf(result.problem, result.plan, name).find("tp") != std::string::npos;
  };
  EXPECT_FALSE(isSplit("layers.1.up"));
  on.software.gathersWeights = false;
  EXPECT_TRUE(isSplit("layers.1.up"));
  EXPECT_TRUE(isSplit("layers.1.down"));
}

/// Megatron's dispatcher gathers rows over tensor-parallel ranks and waits, where other products are computed in parts.
TEST(Experts, HideNoCommunicationBesideTheirProducts) {
  Cluster on = cluster("dgx-h100");
  on.software.overlapsProducts = true;
  SearchResult result = best(load("mixtral"), 4, "tp=4,dp=1,pp=1,sp=on,zero=0,recompute=none", on);
  ProblemFacts facts(result.problem);
  CostModel model(on, 4);
  OpWork work(result.problem, facts, model);
  ProductOverlap overlap(result.problem, facts, result.plan, model, work);
  auto left = [&](const char *name) {
    OpId product = find(result.problem, name);
    return overlap.exposed(StepKind::AllGather, result.plan.mesh.ofDegree("tp"), 1e-4,
                           result.problem.ops[product].operands[0], product);
  };
  EXPECT_LT(left("dtc.contract"), 0.9e-4);
  EXPECT_EQ(left("dtc.grouped_contract"), 1e-4);
}

TEST(Experts, AreNeverSplitByTensorParallelism) {
  Problem problem = load("mixtral");
  SearchResult result = best(problem, 4, "tp=4,dp=1,pp=1");
  AxisList tensor = result.plan.mesh.ofDegree("tp");
  bool splits = false;
  for (size_t id = 0; id < problem.ops.size(); ++id)
    if (dtc::sharding::FactorId groupedExperts = problem.ops[id].groupedExperts;
        groupedExperts >= 0) {
      EXPECT_TRUE(result.plan.ops[id].factors[groupedExperts].empty()) << problem.ops[id].name;
      for (const AxisList &axes : result.plan.ops[id].factors)
        splits |= !axes.empty();
    }
  EXPECT_TRUE(splits);
  // Nor does a plan that somebody has written.
  Plan plan = result.plan;
  OpId id = find(result.problem, "dtc.grouped_contract");
  for (AxisList &axes : plan.ops[id].factors)
    axes.clear();
  plan.ops[id].factors[problem.ops[id].groupedExperts] = tensor;
  bool found = false;
  for (const Violation &violation : verify(result.problem, plan, cluster("dgx-h100")))
    found |=
        violation.op == id &&
        violation.message == "dtc.grouped_contract has experts that only ep can split, axis tp";
  EXPECT_TRUE(found);
}
