// What those who train large models know, found by the search from problem data alone.
#include "Planner.h"
#include "Search/Candidates.h"
#include "StageGroups.h"

#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Shard/Experts.h"

#include <limits>
#include <set>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// H100 nodes of 8 with a network of so many GB/s a device.
Cluster nodes(double gigabytes) {
  Cluster on = cluster("dgx-h100");
  for (LinkLevel &level : on.levels)
    if (level.size == 0 || level.size > on.devicesPerNode)
      level.bandwidth = level.alone = gigabytes * 1e9;
  return on;
}

} // namespace

TEST(ZeroGroups, FillNodesAndPowersOfThem) {
  Cluster on = cluster("dgx-h100");
  EXPECT_EQ(zeroGroups({.dp = 64, .tp = 2}, on), (std::vector<int64_t>{16, 4}));
  EXPECT_EQ(zeroGroups({.dp = 24}, on), (std::vector<int64_t>{8}));
  EXPECT_EQ(zeroGroups({.dp = 8}, on), (std::vector<int64_t>{}));
  EXPECT_EQ(zeroGroups({.dp = 8, .tp = 8}, on), (std::vector<int64_t>{4}));
  on.levels.insert(on.levels.begin() + 1, {"leaf", 24, 50e9, 5e-6});
  EXPECT_EQ(zeroGroups({.dp = 48}, on), (std::vector<int64_t>{24, 8}));
}

TEST(Rediscovery, ShardsWithinTheNodeWhereTheNetworkIsSlow) {
  Problem problem = transformer(gpt7b(64));
  std::string rest = "dp=32,tp=1,pp=1,cp=1,ep=1,zero=3,micro_batch=1,recompute=full";
  SearchResult slow = best(problem, 32, rest, nodes(5)),
               everywhere = best(problem, 32, rest + ",zero_group=32", nodes(5));
  EXPECT_EQ(slow.plan.degrees.zeroGroup, 8);
  EXPECT_EQ(slow.plan.mesh.axes[1].size, 8) << "groups are neighbours";
  EXPECT_LT(slow.predicted.stepSeconds, 0.8 * everywhere.predicted.stepSeconds);
  EXPECT_GT(slow.predicted.memory.total(), everywhere.predicted.memory.total());
  // Larger groups where one node can't hold the model.
  Cluster small = nodes(5);
  small.device.memoryBytes = double(slow.predicted.memory.total()) - 1e9;
  SearchResult larger = best(problem, 32, rest, small);
  EXPECT_NE(larger.plan.degrees.zeroGroup, 8);
  EXPECT_TRUE(larger.predicted.fits());
}

TEST(Rediscovery, RefusesGroupsThatShareNothing) {
  SearchOutcome result = found(transformer({2, 512, 8, 128, 16, 1024}), 4,
                               "dp=4,zero=3,zero_group=1", cluster("dgx-h100"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("zero_group=1 leaves nothing to share: zero=3"),
            std::string::npos) << result.error().message;
}

/// Stage groups are judged as the one mesh of a uniform plan is.
TEST(Rediscovery, RefusesGroupsThatDontDivideAlikeInAllMeshes) {
  Problem problem = transformer({2, 512, 8, 128, 16, 1024});
  auto refusal = [&](std::vector<StageGroup> groups, int64_t zeroGroup) {
    SearchOptions options = optionsOf(8);
    Degrees degrees = grouped(std::move(groups), 16, 3);
    degrees.zeroGroup = zeroGroup;
    options.spec = pinned(degrees, {});
    auto result = search(problem, cluster("dgx-h100"), options);
    return result ? "" : result.error().message;
  };
  const std::string none = "no plan for 8 devices: ";
  EXPECT_EQ(refusal({{1, 4, 1, false, 1}, {1, 2, 2, false, 2}}, 3),
            none + "zero_group doesn't divide dp=4|2: 3");
  EXPECT_EQ(refusal({{1, 4, 1, false, 1}, {1, 2, 2, false, 2}}, 4), "");
  EXPECT_EQ(refusal({{1, 4, 1, false, 1}, {1, 2, 2, false, 2}}, 1),
            none + "zero_group=1 leaves nothing to share: zero=3");
  // With one data-parallel rank each there is nothing to share in any case.
  EXPECT_EQ(refusal({{1, 1, 4, false, 4}, {2, 1, 2, false, 4}}, 1), "");
  auto uniform = found(problem, 8, "dp=1,tp=4,pp=2,zero=3,zero_group=1");
  EXPECT_TRUE(uniform) << uniform.error().message;
  auto odd = found(problem, 8, "dp=4,tp=2,zero=3,zero_group=3");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message, none + "zero_group doesn't divide dp=4: 3");
}

/// Nobody typed the dp=1 that is tried last.
TEST(Rediscovery, SaysWhichDataParallelRanksAGroupMayShare) {
  Problem problem = transformer({2, 512, 8, 128, 16, 1024});
  auto refusal = [&](const char *spec) {
    auto result = found(problem, 8, spec);
    return result ? "" : result.error().message;
  };
  const std::string none = "no plan for 8 devices: dp can be ";
  EXPECT_EQ(refusal("zero=3,zero_group=3"), none + "1, 2, 4, 8, no multiple of zero_group: 3");
  EXPECT_EQ(refusal("tp=4,zero=3,zero_group=4"), none + "1, 2, no multiple of zero_group: 4");
  EXPECT_EQ(refusal("tp=8,zero_group=4"), none + "1, no multiple of zero_group: 4");
  EXPECT_EQ(refusal("tp=2,zero=3,zero_group=4"), "");
}

namespace {

/// Of a plan with one stage a pipeline rank.
std::vector<int64_t> recomputedByStage(const SearchResult &result) {
  std::vector<int64_t> counts(result.plan.stages.size(), 0);
  for (size_t stage = 0; stage < counts.size(); ++stage)
    for (const BlockRecompute &entry : result.plan.recompute)
      counts[stage] += entry.kind != Recompute::None &&
                       entry.block >= result.predicted.stages[stage].firstLayer &&
                       entry.block <= result.predicted.stages[stage].lastLayer;
  return counts;
}

} // namespace

TEST(Rediscovery, RecomputesNoMoreBlocksThanMemoryAsksFor) {
  Problem problem = transformer(gpt7b(64));
  Cluster on = cluster("dgx-h100");
  std::string rest = "dp=16,tp=1,pp=1,cp=1,ep=1,zero=3,micro_batch=2";
  Prediction none = best(problem, 16, rest + ",recompute=none,zero_group=16", on).predicted,
             full = best(problem, 16, rest + ",recompute=full,zero_group=16", on).predicted;
  on.device.memoryBytes = 0.5 * double(none.memory.total() + full.memory.total());
  SearchResult some = best(problem, 16, rest, on);
  const Degrees &degrees = some.plan.degrees;
  EXPECT_EQ(degrees.recompute, Recompute::Full);
  EXPECT_GT(degrees.recomputeBlocks, 0);
  EXPECT_LT(degrees.recomputeBlocks, 32);
  EXPECT_TRUE(some.predicted.fits());
  EXPECT_GT(some.predicted.stepSeconds, none.stepSeconds);
  EXPECT_LT(some.predicted.stepSeconds, full.stepSeconds);
  // One block less would leave next to nothing free.
  Plan fewer = some.plan;
  fewer.recompute.pop_back();
  --fewer.degrees.recomputeBlocks;
  EXPECT_TRUE(verify(some.problem, fewer, on).empty());
  Prediction less = predict(some.problem, fewer, on);
  double room = on.device.memoryBytes - double(less.memory.reserved);
  EXPECT_GT(double(less.memory.allocated()), 0.97 * room);
  EXPECT_LE(double(some.predicted.memory.allocated()), 0.97 * room);
  EXPECT_LT(less.stepSeconds, some.predicted.stepSeconds);
}

TEST(Rediscovery, EarlyStagesRecomputeMore) {
  // Of four stages with 1F1B the first holds four microbatches, the last one.
  Problem problem = transformer(gpt7b(64));
  Cluster on = cluster("dgx-h100");
  std::string rest = "dp=4,tp=1,pp=4,cp=1,ep=1,zero=1,micro_batch=1,schedule=1f1b,offload=none";
  SearchResult none = best(problem, 16, rest + ",recompute=none", on);
  on.device.memoryBytes = 0.85 * double(none.predicted.memory.total());
  SearchResult some = best(problem, 16, rest, on);
  std::vector<int64_t> counts = recomputedByStage(some);
  ASSERT_EQ(counts.size(), 4u);
  EXPECT_TRUE(some.predicted.fits());
  EXPECT_GT(counts[0], counts[3]);
  EXPECT_EQ(counts[3], 0);
}

TEST(Rediscovery, SelectsAttentionOfSomeBlocksBeforeRecomputingAny) {
  Cluster on = cluster("dgx-h100");
  on.software.flashAttention = 0; // scores are kept
  Problem problem = transformer(gpt7b(64));
  std::string rest = "dp=16,tp=1,pp=1,cp=1,ep=1,zero=3,micro_batch=1,offload=none";
  Prediction none = best(problem, 16, rest + ",recompute=none,zero_group=16", on).predicted,
             selective = best(problem, 16, rest + ",recompute=selective,zero_group=16", on).predicted;
  on.device.memoryBytes = 0.5 * double(none.memory.total() + selective.memory.total());
  Degrees half = best(problem, 16, rest, on).plan.degrees;
  EXPECT_EQ(half.recompute, Recompute::Selective);
  EXPECT_GT(half.recomputeBlocks, 0);
  on.device.memoryBytes = 0.97 * double(selective.memory.total());
  EXPECT_EQ(best(problem, 16, rest, on).plan.degrees.recompute, Recompute::Full);
}

TEST(Rediscovery, MoreMemoryIsNeverSlower) {
  Problem problem = transformer({16, 2048, 16, 1024, 32, 32768});
  double last = std::numeric_limits<double>::infinity();
  for (double gigabytes : {6, 7, 8, 10, 14, 20, 40, 80}) {
    Cluster on = cluster("dgx-h100");
    on.device.memoryBytes = gigabytes * 1e9;
    SearchResult result = best(problem, 8, "auto", on);
    EXPECT_TRUE(result.predicted.fits()) << gigabytes;
    EXPECT_LE(result.predicted.stepSeconds, last * 1.001) << gigabytes;
    last = result.predicted.stepSeconds;
  }
}

TEST(Rediscovery, MoreBandwidthIsNeverSlower) {
  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  double last = std::numeric_limits<double>::infinity();
  for (double gigabytes : {1, 3, 10, 30, 100}) {
    SearchResult result = best(problem, 32, "auto", nodes(gigabytes));
    EXPECT_LE(result.predicted.stepSeconds, last * 1.001) << gigabytes;
    last = result.predicted.stepSeconds;
  }
}

TEST(Rediscovery, MoreDevicesAreNeverSlower) {
  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  double last = std::numeric_limits<double>::infinity();
  for (int64_t devices : {1, 2, 4, 8, 16, 32}) {
    SearchResult result = best(problem, devices, "auto", cluster("dgx-h100"));
    EXPECT_LT(result.predicted.stepSeconds, last) << devices;
    last = result.predicted.stepSeconds;
  }
}

TEST(Experts, AreWhatContractionsShareWithTheirWeights) {
  Problem problem = load("moe");
  Experts experts(problem, ProblemFacts(problem));
  EXPECT_EQ(experts.mostRanks, 16);
  int running = 0;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    running += experts.runs[id];
    if (experts.factor[id] >= 0)
      EXPECT_EQ(problem.ops[id].rule->factors[experts.factor[id]].size, 16) << problem.ops[id].name;
  }
  EXPECT_EQ(running, 4 * 2);
  for (const char *name : {"gpt", "llama_kv2"}) {
    Problem dense = load(name);
    EXPECT_EQ(Experts(dense, ProblemFacts(dense)).mostRanks, 1) << name;
  }
}

TEST(Rediscovery, MixturesShareOutTheirExperts) {
  Problem problem = load("moe");
  SearchResult result = best(problem, 16, "auto", cluster("dgx-h100"));
  const Degrees &degrees = result.plan.degrees;
  EXPECT_GT(degrees.ep, 1) << summary(degrees);
  EXPECT_TRUE(shardingOf(result.problem, result.plan, "h.0.wi").starts_with("[{\"ep\"}"))
      << shardingOf(result.problem, result.plan, "h.0.wi");
  bool sends = false;
  for (const CollectiveUse &use : result.predicted.collectives)
    sends |= use.axis == "ep" && use.kind == dtc::sharding::StepKind::AllToAll;
  EXPECT_TRUE(sends);
  SearchResult dense = best(problem, 16, "ep=1", cluster("dgx-h100"));
  EXPECT_LT(result.predicted.stepSeconds, dense.predicted.stepSeconds);
}

TEST(Rediscovery, ModelsWithoutExpertsHaveNoExpertParallelism) {
  SearchOutcome result = found(load("gpt"), 4, "ep=2", cluster("dgx-h100"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "no plan for 4 devices: no op runs experts side by side, with weights of their own: "
            "ep=2");
  result = found(load("moe"), 64, "ep=32,pp=1", cluster("dgx-h100"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "no plan for 64 devices: ep doesn't divide the 16 experts: 32");
}

TEST(Rediscovery, ExpertsAreStoredByFewerRanks) {
  Problem problem = load("moe");
  SearchResult result =
      best(problem, 16, "dp=4,ep=4,tp=1,zero=3,micro_batch=4,recompute=none", cluster("dgx-h100"));
  for (const ParameterStorage &storage : result.plan.storage) {
    bool isExpert = storage.parameter.ends_with(".wi") || storage.parameter.ends_with(".wo");
    EXPECT_EQ(result.plan.mesh.size(storage.storageAxes), isExpert ? 4 : 16) << storage.parameter;
  }
  // Gradients of experts are summed over dp alone.
  std::set<std::string> scattered;
  for (const CollectiveUse &use : result.predicted.collectives)
    if (use.kind == dtc::sharding::StepKind::ReduceScatter)
      scattered.insert(use.axis);
  EXPECT_EQ(scattered, (std::set<std::string>{"dp", "dp,ep"}));
}

TEST(Rediscovery, SplitsLongSequences) {
  TransformerSize size = gpt7b(16);
  size.sequence = 65536;
  Problem problem = transformer(size);
  SearchResult result = best(problem, 64, "auto", cluster("dgx-h100"));
  EXPECT_GT(result.plan.degrees.cp, 1) << summary(result.plan.degrees);
  SearchOutcome whole = found(problem, 64, "cp=1", cluster("dgx-h100"));
  if (whole)
    EXPECT_LT(result.predicted.stepSeconds, whole->predicted.stepSeconds);
}

TEST(Rediscovery, SplitsTheSequenceBesideTensorsWhereMemoryIsShort) {
  Problem problem = transformer(gpt13b(8));
  Cluster on = cluster("dgx-h100");
  std::string rest = "dp=1,tp=8,pp=1,cp=1,ep=1,zero=0,micro_batch=8,recompute=none,offload=none";
  Prediction plain = best(problem, 8, rest + ",sp=off", on).predicted,
             split = best(problem, 8, rest + ",sp=on", on).predicted;
  EXPECT_LT(split.memory.activations, 0.8 * double(plain.memory.activations));
  on.device.memoryBytes = 0.5 * double(plain.memory.total() + split.memory.total());
  SearchResult result = best(problem, 8, rest, on);
  EXPECT_TRUE(result.predicted.fits());
  EXPECT_TRUE(result.plan.degrees.sp);
}

TEST(Rediscovery, StoresParametersWholeWhereThereIsRoom) {
  // Eight microbatches a step: ZeRO-3 gathers parameters sixteen times, ZeRO-1 once. ZeRO-2,
  // which has them whole, too, scatters gradients eight times: inside nodes alone.
  Problem problem = transformer({16, 2048, 16, 1024, 128, 32768});
  Cluster on = nodes(3);
  std::string rest = "dp=16,tp=1,pp=1,cp=1,ep=1,micro_batch=1,offload=none,recompute=none";
  SearchResult roomy = best(problem, 16, rest, on);
  EXPECT_TRUE(roomy.plan.degrees.zero <= 1 ||
              (roomy.plan.degrees.zero == 2 && roomy.plan.degrees.zeroGroup == 8))
      << summary(roomy.plan.degrees);
  Prediction one = best(problem, 16, rest + ",zero=1,zero_group=16", on).predicted;
  EXPECT_LE(roomy.predicted.stepSeconds, one.stepSeconds);
  EXPECT_LT(one.stepSeconds,
            0.7 * best(problem, 16, rest + ",zero=3,zero_group=16", on).predicted.stepSeconds);
  on.device.memoryBytes = 0.9 * double(one.memory.total());
  SearchResult tight = best(problem, 16, rest, on);
  EXPECT_GE(tight.plan.degrees.zero, 2) << summary(tight.plan.degrees);
  EXPECT_TRUE(tight.predicted.fits());
  on.device.memoryBytes = 0.9 * double(tight.predicted.memory.total());
  SearchResult tighter = best(problem, 16, rest, on);
  EXPECT_TRUE(tighter.plan.degrees.zero == 3 || tighter.plan.degrees.zeroGroup == 16)
      << summary(tighter.plan.degrees);
  EXPECT_TRUE(tighter.predicted.fits());
}

namespace {

/// A node of 8 H100 and one of 8 A100.
Cluster mixed() { return clusterOf({"node: dgx-h100, nodes: 1", "node: dgx-a100, nodes: 1"}); }

int64_t layersOf(const StagePrediction &stage) { return stage.lastLayer - stage.firstLayer + 1; }

} // namespace

TEST(Rediscovery, FasterDevicesGetMoreLayers) {
  Problem problem = transformer(gpt7b(64));
  std::string rest = "dp=4,tp=2,pp=2,cp=1,ep=1,zero=1,micro_batch=1,schedule=1f1b,offload=none,"
                     "recompute=full";
  SearchResult result = best(problem, 16, rest, mixed());
  ASSERT_EQ(result.predicted.stages.size(), 2u);
  const StagePrediction &fast = result.predicted.stages[0], &slow = result.predicted.stages[1];
  EXPECT_EQ(fast.devices.back(), 7) << "a stage for each type";
  // H100 compute two to three times as fast.
  EXPECT_GT(layersOf(fast), 3 * layersOf(slow) / 2);
  double ratio = (fast.forwardSeconds + fast.backwardSeconds) /
                 (slow.forwardSeconds + slow.backwardSeconds);
  EXPECT_GT(ratio, 0.8);
  EXPECT_LT(ratio, 1.25);
  Cluster slower = cluster("dgx-a100");
  EXPECT_LT(result.predicted.stepSeconds,
            0.8 * best(problem, 16, rest, slower).predicted.stepSeconds);
  // Cut in the middle, everybody waits for the A100.
  Plan even = result.plan;
  SearchResult alike = best(problem, 16, rest, slower);
  for (size_t i = 0; i < 2; ++i) {
    even.stages[i].firstOp = alike.plan.stages[i].firstOp;
    even.stages[i].lastOp = alike.plan.stages[i].lastOp;
  }
  EXPECT_TRUE(verify(result.problem, even, mixed()).empty());
  EXPECT_GT(predict(result.problem, even, mixed()).stepSeconds,
            1.1 * result.predicted.stepSeconds);
}

TEST(Rediscovery, PipelinesJoinDevicesOfDifferentTypes) {
  Problem problem = transformer(gpt7b(64));
  SearchResult result = best(problem, 16, "auto", mixed());
  EXPECT_GT(result.plan.degrees.pp, 1) << summary(result.plan.degrees);
  EXPECT_LT(result.predicted.stepSeconds,
            best(problem, 16, "pp=1", mixed()).predicted.stepSeconds);
  // Better than either half alone.
  for (const char *half : {"dgx-h100", "dgx-a100"})
    EXPECT_LT(result.predicted.stepSeconds,
              best(problem, 8, "auto", cluster(half)).predicted.stepSeconds) << half;
}
