// Known wisdom about training large models, found unaided.
#include "Planner.h"
#include "Transformer.h"

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// Everything pinned but what the text says.
SearchResult pinnedPlan(const Problem &problem, int64_t devices, const std::string &spec,
                        const Cluster &on = cluster("dgx-h100")) {
  return best(problem, devices, "cp=1,ep=1," + spec, on);
}

} // namespace

TEST(PlanSearch, TensorParallelInsideTheNodePipelinesOrDataAcross) {
  SearchResult result = best(transformer(gpt175b(512)), 512, "zero=1");
  EXPECT_TRUE(result.predicted.fits());
  EXPECT_GE(result.plan.degrees.tp, 2);
  EXPECT_LE(result.plan.degrees.tp, 8);
  EXPECT_GE(result.plan.degrees.pp, 2);
  // The ranks of a tensor-parallel group are neighbours.
  EXPECT_EQ(result.plan.mesh.axes.back().degree, "tp");
  EXPECT_EQ(result.plan.stages[0].devices[1], result.plan.stages[0].devices[0] + 1);
}

TEST(PlanSearch, ShardsMediumModelsOverDataParallelRanks) {
  for (auto [size, devices] : {std::pair(gpt7b(256), 16), {gpt13b(256), 64}}) {
    const Degrees degrees = best(transformer(size), devices, "auto").plan.degrees;
    EXPECT_GE(degrees.zero, 1) << summary(degrees);
    EXPECT_GE(degrees.dp, devices / 4) << summary(degrees);
  }
}

TEST(PlanSearch, EachZeroLevelHoldsLess) {
  Problem problem = transformer(gpt7b(64));
  MemoryUse last;
  for (int zero = 0; zero <= 3; ++zero) {
    Prediction predicted =
        pinnedPlan(problem, 16, "dp=16,tp=1,pp=1,recompute=full,micro_batch=1,zero=" +
                                    std::to_string(zero) + (zero ? ",zero_group=16" : ""))
            .predicted;
    const MemoryUse &memory = predicted.memory;
    if (zero > 0)
      EXPECT_LT(memory.total(), last.total()) << zero;
    if (zero == 1)
      EXPECT_EQ(memory.optimizer, last.optimizer / 16);
    if (zero == 2)
      EXPECT_EQ(memory.gradients, last.gradients / 16);
    if (zero == 3)
      EXPECT_EQ(memory.parameters, last.parameters / 16);
    last = memory;
  }
}

TEST(PlanSearch, RecomputationTradesTimeForMemory) {
  Problem problem = transformer(gpt7b(64));
  auto at = [&](const std::string &kind) {
    return pinnedPlan(problem, 16, "dp=16,tp=1,pp=1,zero=1,micro_batch=1,recompute=" + kind)
        .predicted;
  };
  Prediction none = at("none"), full = at("full");
  EXPECT_LT(full.memory.activations, none.memory.activations / 3);
  EXPECT_GT(full.stepSeconds, 1.15 * none.stepSeconds);
  EXPECT_LT(full.stepSeconds, 1.45 * none.stepSeconds);
  EXPECT_EQ(full.modelFlops, none.modelFlops) << "what is done twice counts once";
}

TEST(PlanSearch, SelectsAttentionBeforeWholeBlocks) {
  Cluster on = cluster("dgx-h100");
  on.software.flashAttention = 0; // scores are kept
  Problem problem = transformer(gpt7b(64));
  std::string rest = "dp=16,tp=1,pp=1,zero=3,micro_batch=1,recompute=";
  Prediction none = pinnedPlan(problem, 16, rest + "none", on).predicted,
             selective = pinnedPlan(problem, 16, rest + "selective", on).predicted,
             full = pinnedPlan(problem, 16, rest + "full", on).predicted;
  EXPECT_LT(selective.memory.activations, none.memory.activations);
  EXPECT_LT(full.memory.activations, selective.memory.activations);
  EXPECT_LT(selective.stepSeconds, full.stepSeconds);
  // With room for just that, it is what is chosen.
  on.device.memoryBytes = double(selective.memory.total()) * 1.01;
  ASSERT_GT(none.memory.total(), on.device.memoryBytes);
  SearchResult chosen = pinnedPlan(problem, 16, "dp=16,tp=1,pp=1,zero=3,micro_batch=1", on);
  EXPECT_EQ(chosen.plan.degrees.recompute, Recompute::Selective);
}

TEST(PlanSearch, LargerMicrobatchesHoldMore) {
  Problem problem = transformer(gpt7b(256));
  int64_t last = 0;
  for (int64_t size : {1, 2, 4, 8}) {
    std::string spec = "dp=16,tp=1,pp=1,zero=3,zero_group=16,recompute=full,micro_batch=" +
                       std::to_string(size);
    Prediction predicted = pinnedPlan(problem, 16, spec).predicted;
    EXPECT_GT(predicted.memory.total(), last);
    last = predicted.memory.total();
  }
}

TEST(PlanSearch, InterleavesWhereBubblesHurt) {
  Problem problem = transformer(gpt7b(16));
  std::string rest = "dp=1,tp=2,pp=8,zero=0,recompute=full,micro_batch=1,schedule=";
  Prediction plain = pinnedPlan(problem, 16, rest + "1f1b").predicted,
             interleaved = pinnedPlan(problem, 16, rest + "interleaved,chunks=4").predicted;
  EXPECT_GT(plain.bubbleFraction, 0.2);
  EXPECT_LT(interleaved.bubbleFraction, plain.bubbleFraction / 2);
  EXPECT_LT(interleaved.stepSeconds, plain.stepSeconds);
  SearchResult chosen =
      pinnedPlan(problem, 16, "dp=1,tp=2,pp=8,zero=0,recompute=full,micro_batch=1");
  EXPECT_NE(chosen.plan.degrees.schedule, ScheduleKind::OneFOneB);
}

/// Three layers and a large head can't be halved well, but shared out in more stages than two.
TEST(PlanSearch, InterleavesWhatTwoStagesCannotHold) {
  Problem problem = transformer({3, 1024, 16, 64, 4, 8192});
  Cluster on = cluster("dgx-h100");
  on.device.architecture = Architecture::None;
  on.device.multiprocessors = 0;
  on.device.achieved = {{DType::BF16, 7e14}, {DType::F32, 7e14}};
  on.levels = {{"link", 0, 1e11, 1e-6}};
  on.device.memoryBytes = 4.9e8;
  const std::string spec = "dp=1,tp=1,pp=2,zero=0,recompute=none";
  EXPECT_FALSE(found(problem, 2, spec + ",schedule=1f1b", on));
  SearchResult free = best(problem, 2, spec, on);
  EXPECT_EQ(free.plan.degrees.schedule, ScheduleKind::Interleaved) << summary(free.plan.degrees);
  EXPECT_TRUE(free.predicted.fits());
  int fitting = 0;
  for (const char *chunks : {"2", "4"}) {
    auto pinned = found(problem, 2, spec + ",micro_batch=1,chunks=" + chunks, on);
    if (!pinned || !pinned->predicted.fits())
      continue;
    EXPECT_LE(free.predicted.stepSeconds, pinned->predicted.stepSeconds * 1.0001) << chunks;
    ++fitting;
  }
  EXPECT_GT(fitting, 0);
}

TEST(PlanSearch, CutsUnevenlyAroundALargeHead) {
  TransformerSize size{8, 1024, 16, 1024, 16, 131072};
  SearchResult result =
      pinnedPlan(transformer(size), 4, "dp=1,tp=1,pp=4,zero=0,recompute=none,schedule=1f1b");
  auto layers = [&](size_t i) {
    const StagePrediction &stage = result.predicted.stages[i];
    return stage.firstLayer < 0 ? 0 : stage.lastLayer - stage.firstLayer + 1;
  };
  ASSERT_EQ(result.predicted.stages.size(), 4u);
  EXPECT_LT(layers(3), layers(0));
}

TEST(PlanSearch, HoldsNoMoreCopiesOfWeightsThanFitWhereThatIsFaster) {
  // With a sequence split instead of heads, ranks compute with whole weights and exchange less.
  TransformerSize size = gpt13b(1);
  size.trained = false;
  Problem problem = transformer(size);
  Cluster on = cluster("dgx-h100");
  on.device.memoryBytes = 12e9;
  SearchResult chosen = best(problem, 4, "auto", on);
  EXPECT_EQ(chosen.plan.degrees.tp, 4);
  EXPECT_TRUE(chosen.predicted.fits());
  for (const Alternative &other : chosen.alternatives)
    EXPECT_EQ(other.degrees.zero, 0); // nothing to store apart
  SearchResult pipelined = best(problem, 4, "pp=4", on);
  EXPECT_TRUE(pipelined.predicted.fits());
  EXPECT_LT(chosen.predicted.stepSeconds, pipelined.predicted.stepSeconds);
}

TEST(PlanSearch, StagesMayBeLessThanALayer) {
  Problem problem = transformer({2, 1024, 16, 1024, 16, 8192});
  SearchResult result = best(problem, 8, "pp=8,micro_batch=1");
  EXPECT_EQ(result.plan.stages.size(), 8u);
  SearchOptions options;
  options.devices = 1024;
  options.executable = false;
  options.spec = *parseSpec("pp=1024");
  SearchOutcome refused = search(problem, cluster("dgx-h100"), options);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.ends_with("too few for as many stages: 1024"))
      << refused.error().message;
}

TEST(PlanSearch, ContextParallelismSplitsActivations) {
  TransformerSize size = gpt7b(16);
  size.sequence = 32768;
  Problem problem = transformer(size);
  // Parameters that are gathered would be among the activations.
  std::string rest = "tp=1,pp=1,ep=1,zero=1,recompute=full,micro_batch=1,";
  // For dtc's own programs gathered keys are products, whose scores are most of the activations.
  Cluster on = cluster("dgx-h100");
  on.software.flashAttention = 3;
  Prediction whole = best(problem, 16, rest + "dp=16,cp=1", on).predicted,
             split = best(problem, 16, rest + "dp=4,cp=4,cp_by=keys", on).predicted;
  EXPECT_LT(split.memory.activations, whole.memory.activations / 2.5) << "all but keys and values";
  bool gathers = false;
  for (const CollectiveUse &use : split.collectives)
    gathers |= use.axis == "cp" && use.kind == dtc::sharding::StepKind::AllGather;
  EXPECT_TRUE(gathers) << "every rank reads all keys and values";
}

TEST(PlanSearch, GatheredKeysKeepScoresWhereNoKernelTakesThem) {
  TransformerSize size{2, 512, 8, 4096, 4, 1000};
  Problem problem = transformer(size);
  const std::string rest =
      "dp=1,tp=1,cp=4,pp=1,ep=1,zero=1,recompute=none,micro_batch=4,cp_by=keys";
  Cluster other = cluster("dgx-h100");
  other.software.flashAttention = 3;
  Prediction own = best(problem, 4, rest).predicted,
             elsewhere = best(problem, 4, rest, other).predicted;
  const double scores = 4.0 * 8 * (4096 / 4) * 4096 * 4; // samples, heads, queries, keys, f32
  const double more = double(own.memory.activations - elsewhere.memory.activations);
  // Those of two layers, gradients of one, and it and probabilities rounded to bf16.
  EXPECT_NEAR(more, 4 * scores, 0.15 * 4 * scores);
  EXPECT_GT(own.stepSeconds, elsewhere.stepSeconds);
  EXPECT_NE(best(problem, 4, "cp=4,dp=1,tp=1").plan.degrees.contextExchange, ContextExchange::Keys);
}

TEST(PlanSearch, ARingPassesOnWhatIsOtherwiseGathered) {
  TransformerSize size = gpt7b(4);
  size.sequence = 32768;
  Problem problem = transformer(size);
  std::string rest = "dp=4,tp=1,cp=4,pp=1,ep=1,zero=1,recompute=full,micro_batch=1,";
  SearchResult ring = best(problem, 16, rest + "cp_by=ring");
  int64_t sends = 0;
  double bytes = 0, exposed = 0;
  for (const CollectiveUse &use : ring.predicted.collectives)
    if (use.axis == "cp" && use.kind == dtc::sharding::StepKind::Permute) {
      sends += use.count;
      bytes += double(use.count * use.bytes);
      exposed += use.seconds;
    }
  // Three times keys and values in each pass of 32 layers, and three times their gradients. The
  // forward pass is computed again in most layers.
  EXPECT_GT(sends, 32 * 3 * (2 + 4));
  EXPECT_LE(sends, 32 * 3 * (2 + 2 + 4));
  EXPECT_EQ(sends % 6, 0);
  constexpr double nvlink = 450e9;
  EXPECT_GT(exposed, 0) << "gradients that come home";
  EXPECT_LT(exposed, 0.25 * bytes / nvlink) << "behind attention with so many keys";
  EXPECT_LT(ring.predicted.memory.activations,
            best(problem, 16, rest + "cp_by=keys").predicted.memory.activations);
}

TEST(PlanSearch, WeighsWhatRanksOfASequenceExchange) {
  TransformerSize size{4, 4096, 32, 65536, 4, 32000};
  Problem problem = transformer(size);
  const std::string rest = "dp=2,tp=1,cp=8,pp=1,ep=1,zero=3";
  // Gathered keys have scores, of which 80 GB don't hold enough.
  Cluster roomy = cluster("dgx-h100");
  roomy.device.memoryBytes *= 16;
  SearchResult keys = best(problem, 16, rest + ",cp_by=keys", roomy),
               ring = best(problem, 16, rest + ",cp_by=ring"), chosen = best(problem, 16, rest);
  // 32 heads are exchanged for less than gathering their keys takes.
  EXPECT_EQ(chosen.plan.degrees.contextExchange, ContextExchange::Heads);
  EXPECT_LT(chosen.predicted.stepSeconds, keys.predicted.stepSeconds);
  EXPECT_LE(chosen.predicted.stepSeconds, ring.predicted.stepSeconds);
}

TEST(PlanSearch, KeysGoRoundWhereNothingElseFits) {
  // Eight ranks can't exchange four heads.
  Problem problem = transformer({4, 4096, 4, 65536, 4, 32000});
  const std::string rest = "dp=2,tp=1,cp=8,pp=1,ep=1,zero=3,recompute=full,offload=none";
  auto bytes = [&](const std::string &spec) {
    return double(best(problem, 16, spec).predicted.memory.total());
  };
  Cluster on = cluster("dgx-h100");
  on.device.memoryBytes = (bytes(rest + ",cp_by=keys") + bytes(rest + ",cp_by=ring")) / 2;
  SearchOptions gathering = optionsOf(16, rest + ",cp_by=keys");
  gathering.findClosest = gathering.adviseOtherwise = false;
  EXPECT_FALSE(search(problem, on, gathering));
  EXPECT_EQ(best(problem, 16, rest, on).plan.degrees.contextExchange, ContextExchange::Ring);
}

TEST(PlanSearch, RefusesToSplitASequenceThatIsNotThere) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {16, 128, 512});
  ValueId w = builder.argument(ValueKind::Parameter, {512, 512});
  Problem problem = builder.finish({builder.contract(x, w)}, 16);
  SearchOptions options;
  options.devices = 4;
  options.executable = false;
  options.spec = *parseSpec("cp=4");
  SearchOutcome result = search(problem, cluster("dgx-h100"), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "no plan for 4 devices: nothing carries a sequence that could be split: cp=4");
}

TEST(PlanSearch, NoPinnedPlanIsFasterThanTheFreeChoice) {
  TransformerSize size{4, 1024, 16, 1024, 32, 8192};
  Problem problem = transformer(size);
  Cluster on = cluster("dgx-h100");
  on.device.memoryBytes = 6e9;
  SearchResult free = best(problem, 8, "auto", on);
  int compared = 0;
  for (int64_t tp : {1, 2, 4, 8})
    for (int64_t pp : {1, 2, 4})
      for (int zero : {0, 1, 2, 3})
        for (const char *recompute : {"none", "full"})
          for (int64_t micro : {1, 2, 4}) {
            if (tp * pp > 8 || 32 / (8 / (tp * pp)) % micro != 0)
              continue;
            SearchOptions options;
            options.devices = 8;
            options.executable = false;
            options.spec = *parseSpec(
                "cp=1,ep=1,dp=" + std::to_string(8 / (tp * pp)) + ",tp=" + std::to_string(tp) +
                ",pp=" + std::to_string(pp) + ",zero=" + std::to_string(zero) +
                ",recompute=" + recompute + ",micro_batch=" + std::to_string(micro));
            SearchOutcome other = search(problem, on, options);
            ASSERT_TRUE(other) << other.error().message;
            if (!other->predicted.fits())
              continue;
            ++compared;
            EXPECT_LE(free.predicted.stepSeconds, other->predicted.stepSeconds * 1.01)
                << summary(other->plan.degrees);
          }
  EXPECT_GT(compared, 100);
}

TEST(PlanSearch, APinnedPlanThatDoesNotFitIsShown) {
  Problem problem = transformer(gpt13b(64));
  SearchOptions options;
  options.devices = 8;
  options.executable = false;
  options.spec = *parseSpec("dp=8,tp=1,zero=0,recompute=none,micro_batch=1");
  SearchOutcome result = search(problem, cluster("dgx-h100"), options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->pinned);
  EXPECT_FALSE(result->predicted.fits());
}

/// Long steps bring states back and forth for next to nothing, and recompute less for it.
TEST(PlanSearch, OffloadsStatesWhereThatIsFaster) {
  Problem problem = transformer(gpt7b(512));
  SearchResult chosen = best(problem, 8, "auto", cluster("g5"));
  SearchResult without = best(problem, 8, "offload=none", cluster("g5"));
  EXPECT_EQ(chosen.plan.degrees.offload, Offload::Optimizer) << summary(chosen.plan.degrees);
  EXPECT_TRUE(without.predicted.fits());
  EXPECT_LT(chosen.predicted.stepSeconds, 0.95 * without.predicted.stepSeconds);
  // The strategy alone finds it.
  SearchOptions options = optionsOf(8);
  options.without = {SearchStrategy::Offloaded};
  auto leftOut = search(problem, cluster("g5"), options);
  ASSERT_TRUE(leftOut);
  EXPECT_EQ(leftOut->plan, without.plan);
}

/// Where neither shardings that hold less nor offload are enough, both together are.
TEST(PlanSearch, OffloadsStatesOfShardingsThatHoldLess) {
  Problem problem = load("gpt");
  problem.numMicrobatches = 2;
  Cluster on = cluster("dgx-h100");
  on.devicesPerNode = 0;
  on.levels = {{"link", 0, 1e9, 1e-6}};
  double roomy = double(best(problem, 2, "auto", on).predicted.memory.total());
  int both = 0;
  for (double share : {0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60}) {
    on.device.memoryBytes = share * roomy;
    auto offloaded = found(problem, 2, "offload=optimizer", on);
    auto free = found(problem, 2, "auto", on);
    EXPECT_EQ(bool(free), bool(offloaded)) << share << (free ? "" : free.error().message);
    bool isNeeded = free && !found(problem, 2, "offload=none", on);
    both += isNeeded;
    SearchOptions options = optionsOf(2);
    options.executable = true;
    auto compiled = search(problem, on, options);
    EXPECT_EQ(bool(compiled), bool(free)) << share;
    if (compiled && isNeeded)
      EXPECT_EQ(compiled->plan.degrees.offload, Offload::Optimizer) << share;
  }
  EXPECT_GT(both, 0);
}

TEST(PlanSearch, IsDeterministic) {
  Problem problem = transformer(gpt7b(64));
  SearchResult first = best(problem, 32, "auto"), second = best(problem, 32, "auto");
  EXPECT_EQ(first.plan, second.plan);
  EXPECT_EQ(first.predicted, second.predicted);
}

TEST(PlanSearch, SaysWhatIsShortWhereAndWhatWouldHelp) {
  SearchOptions options;
  options.devices = 8;
  options.executable = false;
  options.spec = *parseSpec("tp=1,pp=1,zero=0,offload=none");
  SearchOutcome result = search(transformer(gpt13b(64)), cluster("dgx-h100"), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().category, ErrorCategory::NoFit);
  const std::string message = refusalText(result);
  EXPECT_TRUE(message.starts_with("no plan fits: ")) << message;
  EXPECT_NE(message.find(" short; "), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("; with zero=3 a plan fits")) << message;
  options.devices = 2;
  options.spec = *parseSpec("offload=none");
  result = search(transformer(gpt13b(64)), cluster("dgx-h100"), options);
  ASSERT_FALSE(result);
  EXPECT_TRUE(refusalText(result).ends_with(" a plan fits")) << refusalText(result);
}

/// What is named does help, and is no more than it takes.
TEST(PlanSearch, RemediesHelp) {
  const auto searched = [](const Problem &problem, const std::string &spec, int64_t devices) {
    return found(problem, devices, spec, cluster("p3"));
  };
  const auto expectRemedy = [&](const Problem &problem, const std::string &spec, int64_t devices,
                                const std::string &remedy, const std::string &changed,
                                int64_t thenDevices) {
    auto none = searched(problem, spec, devices);
    ASSERT_FALSE(none) << spec;
    const std::string message = refusalText(none);
    EXPECT_NE(message.find(remedy), std::string::npos) << spec << ": " << message;
    auto then = searched(problem, changed, thenDevices);
    EXPECT_TRUE(then && then->predicted.fits()) << changed;
  };
  Problem large = transformer(gpt7b(32)), longSequences = transformer({4, 4096, 32, 65536, 8, 50304});
  expectRemedy(large, "dp=8,zero=0,recompute=full", 8, "; with zero=3 a plan fits",
               "dp=8,zero=3,recompute=full", 8);
  expectRemedy(large, "dp=8,zero=0,recompute=none,offload=none", 8,
               "; with nothing pinned a plan fits: dp=8 ", "auto", 8);
  expectRemedy(large, "recompute=none,zero=1", 1,
               "; on 3 devices, with nothing pinned, a plan fits", "auto", 3);
  EXPECT_FALSE(searched(large, "auto", 2));
  // That tp=1 and the others follow from dp=8 doesn't pin them.
  expectRemedy(longSequences, "dp=8", 8, "; with dp=1 a plan fits", "dp=1", 8);
}

/// A launch takes longer than what a few short samples need.
TEST(PlanSearch, CallsHaveAllSamplesOfARankWhereThatIsFaster) {
  Problem problem = transformer({2, 64, 4, 8, 2048, 512});
  const SearchResult free = best(problem, 8, "dp=8"),
                     whole = best(problem, 8, "dp=8,micro_batch=256");
  EXPECT_EQ(free.plan.degrees.microBatch, 256);
  EXPECT_EQ(free.predicted.stepSeconds, whole.predicted.stepSeconds);
}

/// Where all of them have more tokens than make a call efficient, it has as many as do.
TEST(PlanSearch, CallsHaveManySamplesOfAFewTokens) {
  Problem problem = transformer({2, 64, 4, 8, 131072, 512});
  EXPECT_EQ(best(problem, 8, "dp=8").plan.degrees.microBatch, 8192);
}

/// More stages than layers, for who asks for them.
TEST(PlanSearch, InterleavesStagesOfLessThanALayer) {
  Problem problem = transformer({2, 256, 8, 64, 32, 1024});
  const Degrees degrees =
      pinnedPlan(problem, 4, "dp=1,tp=1,pp=4,schedule=interleaved,zero=0").plan.degrees;
  EXPECT_EQ(degrees.chunks, 2) << summary(degrees);
  auto refused = found(problem, 4, "dp=1,tp=1,pp=4,cp=1,ep=1,chunks=4096");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("too few for as many stages"), std::string::npos)
      << refused.error().message;
  for (const char *spec : {"dp=4,chunks=2", "pp=2,schedule=zb,chunks=2"}) {
    refused = found(problem, 4, spec);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "no plan for 4 devices: several chunks a rank need several "
                                       "stages and schedule=interleaved|zbv, got chunks=2");
  }
}

/// Not what the last of the degrees that were tried beside it doesn't suit.
TEST(PlanSearch, NamesThePinnedValueThatNothingGoesWith) {
  Problem problem = transformer({2, 512, 8, 8192, 16, 1024});
  SearchOutcome result = found(problem, 12, "ep=2");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no plan for 12 devices: no op runs experts side by side, "
                                    "with weights of their own: ep=2");
}

/// No block is recomputed that the rank has memory for, whichever chunk it is in.
TEST(PlanSearch, ChunksShareTheMemoryOfTheirRank) {
  Problem problem = transformer({16, 4096, 32, 2048, 128, 50304});
  SearchResult result = best(problem, 4, "dp=1,tp=1,pp=4,schedule=interleaved,chunks=4,"
                                         "micro_batch=16,zero=0,offload=none");
  const Prediction &predicted = result.predicted;
  EXPECT_TRUE(predicted.fits());
  EXPECT_EQ(result.plan.degrees.recompute, Recompute::Full);
  EXPECT_GT(result.plan.degrees.recomputeBlocks, 0) << summary(result.plan.degrees);
  EXPECT_LT(result.plan.degrees.recomputeBlocks, 16) << summary(result.plan.degrees);
  EXPECT_GT(double(predicted.memory.total()), 0.8 * predicted.memoryCapacity)
      << summary(result.plan.degrees);
}

/// Where weights are gathered over tensor-parallel ranks, larger microbatches gather them less
/// often: 8 sequences of 8,192 tokens beat 4.
TEST(PlanSearch, TriesMicrobatchesThatGatherWeightsLessOften) {
  Problem problem = transformer({4, 4096, 32, 8192, 64, 8192});
  SearchResult open = best(problem, 8, "tp=8"), pinned = best(problem, 8, "tp=8,micro_batch=8"),
               smaller = best(problem, 8, "tp=8,micro_batch=4");
  EXPECT_LT(pinned.predicted.stepSeconds, 0.98 * smaller.predicted.stepSeconds);
  EXPECT_LE(open.predicted.stepSeconds, pinned.predicted.stepSeconds)
      << summary(open.plan.degrees);
}
