// What other programs than ours hold in memory.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Predict/RankExecution.h"
#include "dtc/Plan/Shard/TensorShardings.h"

#include <algorithm>
#include <cmath>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::Mesh;
using dtc::sharding::StepKind;
using dtc::sharding::TensorSharding;

/// One layer of width 4096 with 32 heads, a sequence of 2048, in bf16.
static Problem halfGpt() {
  Problem gpt = load("gpt");
  for (Value &value : gpt.values)
    if (value.type == DType::F32)
      value.type = DType::BF16;
  return gpt;
}

static int64_t calls(const Prediction &prediction, StepKind kind) {
  int64_t count = 0;
  for (const CollectiveUse &use : prediction.collectives)
    if (use.kind == kind && use.axis == "tp")
      count += use.count;
  return count;
}

/// Korthikanti et al. 2022, section 4.1: 5 a s^2 b of attention, and a mask of s b h for what
/// attention and MLP add to the residual stream. The embedding has one, too.
TEST(Software, DropoutKeepsMasks) {
  Problem gpt = halfGpt();
  ProblemFacts facts(gpt);
  Cluster on = cluster("a100-80");
  on.software = {.flashAttention = 0, .dropout = true};
  CostModel model(on, 1);
  OpWork work(gpt, facts, model);
  std::vector<OpKind> dropped;
  double scores = 0;
  for (OpId id = 0; id < static_cast<OpId>(gpt.ops.size()); ++id) {
    if (OpId of = work.dropsOutputOf(id); of >= 0)
      dropped.push_back(gpt.ops[of].kind);
    if (gpt.ops[id].kind == OpKind::Attention)
      scores += work.savedBytes(id);
  }
  EXPECT_EQ(dropped, (std::vector<OpKind>{OpKind::Lookup, OpKind::Contraction,
                                          OpKind::Contraction}));
  EXPECT_NEAR(scores, 5 * 32.0 * 2048 * 2048, 1e-3 * scores);
  auto activations = [&](bool dropout) {
    const Software others = {.dropout = dropout, .gathersWeights = false};
    return predicted(gpt, others, 1, "dp=1,recompute=none,zero=0").memory.activations;
  };
  EXPECT_EQ(activations(true) - activations(false), 3 * 2048 * 4096);
}

/// BLOOM's embedding goes through a norm to the residual stream, and has no sum.
TEST(Software, DropoutKeepsMasksOfNormalizedEmbeddings) {
  Problem gpt = halfGpt();
  OpId lookup = -1;
  std::vector<OpId> norms;
  for (OpId id = 0; id < static_cast<OpId>(gpt.ops.size()); ++id) {
    if (lookup < 0 && gpt.ops[id].kind == OpKind::Lookup)
      lookup = id;
    if (gpt.ops[id].kind == OpKind::Normalization && !gpt.ops[id].backward)
      norms.push_back(id);
  }
  ASSERT_GE(lookup, 0);
  ASSERT_GE(norms.size(), 2u);
  Cluster on = cluster("a100-80");
  on.software.dropout = true;
  CostModel model(on, 1);
  gpt.ops[norms[0]].operands[0] = gpt.ops[lookup].results[0];
  ProblemFacts alone(gpt);
  EXPECT_EQ(OpWork(gpt, alone, model).dropsOutputOf(norms[0]), -1) << "no norm reads it";
  gpt.ops[norms[1]].operands[0] = gpt.ops[norms[0]].results[0];
  ProblemFacts facts(gpt);
  EXPECT_EQ(OpWork(gpt, facts, model).dropsOutputOf(norms[0]), lookup);
  EXPECT_EQ(OpWork(gpt, facts, model).dropsOutputOf(norms[1]), -1);
}

TEST(Software, ALossThatIsntFusedKeepsProbabilities) {
  Problem gpt = halfGpt();
  ProblemFacts facts(gpt);
  Cluster on = cluster("a100-80");
  on.software.fusedLoss = false;
  CostModel model(on, 1);
  OpWork work(gpt, facts, model);
  for (OpId id = 0; id < static_cast<OpId>(gpt.ops.size()); ++id)
    if (const Op &op = gpt.ops[id]; op.kind == OpKind::Loss) {
      double logits = 4 * double(gpt.values[op.operands[0]].elements());
      EXPECT_EQ(work.savedBytes(id), op.backward ? 0 : logits);
      EXPECT_EQ(work.scratchBytes(id), op.backward ? 0 : logits);
    }
  EXPECT_GT(predicted(gpt, on.software, 1, "dp=1").stepSeconds,
            predicted(gpt, {}, 1, "dp=1").stepSeconds);
}

TEST(Software, GatheringAgainTradesCallsForMemory) {
  Problem gpt = halfGpt();
  const char *spec = "tp=4,sp=on,recompute=none";
  Prediction kept = predicted(gpt, {.gathersWeights = false}, 4, spec);
  Prediction again = predicted(gpt, {.gathersAgain = true, .gathersWeights = false}, 4, spec);
  EXPECT_LT(again.memory.activations, kept.memory.activations);
  EXPECT_GT(calls(again, StepKind::AllGather), calls(kept, StepKind::AllGather));
  EXPECT_EQ(calls(again, StepKind::ReduceScatter), calls(kept, StepKind::ReduceScatter));
}

/// InternEvo's hybrid_zero_optim.py: two nodes of eight, each rank owns a 16th.
TEST(Software, OwnersMayBroadcastParametersInTurn) {
  Problem gpt = transformer({4, 2048, 16, 1024, 64, 8192});
  const char *spec = "dp=16,zero=1,zero_group=16,recompute=none,micro_batch=2";
  Prediction usual = predicted(gpt, {}, 16, spec);
  Prediction owners = predicted(gpt, {.ownersBroadcast = true}, 16, spec);
  auto calls = [](const Prediction &prediction, StepKind kind) {
    int64_t count = 0;
    for (const CollectiveUse &use : prediction.collectives)
      count += use.kind == kind && use.axis == "dp" ? use.count : 0;
    return count;
  };
  EXPECT_GT(calls(usual, StepKind::ReduceScatter), 0);
  EXPECT_EQ(calls(owners, StepKind::ReduceScatter), 0);
  EXPECT_EQ(calls(owners, StepKind::AllGather), 16) << "each owner's part once";
  EXPECT_GT(owners.stepSeconds, usual.stepSeconds);
  EXPECT_EQ(owners.memory.optimizer, usual.memory.optimizer);
}

/// A bucket that the backward pass never fills is reduced after it.
TEST(Software, LargeBucketsLeaveSumsOfGradientsToTheEnd) {
  Problem gpt = transformer({4, 2048, 16, 1024, 64, 8192});
  auto seconds = [&](int64_t elements) {
    // With any elements or none it is another's program, whose update has as many launches.
    return predicted(gpt, {.bucketElements = elements, .lazyLoading = false}, 16,
                     "dp=16,zero=0,recompute=none,micro_batch=2")
        .stepSeconds;
  };
  EXPECT_EQ(seconds(1 << 20), seconds(0)) << "the last layer's are more";
  EXPECT_GT(seconds(1 << 27), seconds(0) + 5e-4);
  EXPECT_EQ(seconds(1 << 30), seconds(int64_t(1) << 40));
}

/// The host launches while the device works: a pass takes the longer of both.
TEST(Software, TheHostLimitsPassesOfEagerPrograms) {
  Problem gpt = halfGpt();
  auto seconds = [&](double launch, bool compiled, bool waits = false) {
    Cluster on = cluster("dgx-a100");
    on.device.launchSeconds = launch;
    on.software.compiled = compiled;
    on.software.waitsForKernels = waits;
    SearchOutcome result = search(gpt, on, {1, *parseSpec("dp=1,recompute=none")});
    return result ? result->predicted.forwardSeconds : -1;
  };
  EXPECT_EQ(seconds(1e-3, true), seconds(4e-6, true));
  EXPECT_LT(seconds(4e-6, false), 1.2 * seconds(4e-6, true)) << "large kernels hide the host";
  // Embedding, layer, head and loss.
  EXPECT_GT(seconds(1e-3, false), 10e-3);
  EXPECT_LT(seconds(1e-3, false), 20e-3);
  // Launched one after the other, both add up.
  EXPECT_GT(seconds(1e-3, false, true), seconds(1e-3, false) + 0.9 * seconds(0, true));
}

TEST(Software, WeightsMayStayWhereTheyAreStored) {
  Mesh mesh{{{"tp", "tp", 4}}};
  Value weight{"w", {64, 64}, DType::BF16, ValueKind::Parameter, true};
  for (bool gathers : {true, false}) {
    Cluster on = cluster("dgx-a100");
    on.software.gathersWeights = gathers;
    CostModel model(on, 4);
    TensorShardings shardings(mesh, model);
    TensorSharding whole = TensorSharding::replicated(2), split = whole;
    split.dims[0] = {0};
    ShardingId a = shardings.intern(whole), b = shardings.intern(split);
    EXPECT_EQ(std::isfinite(shardings.reshardSeconds(weight, b, a)), gathers);
    EXPECT_TRUE(std::isfinite(shardings.reshardSeconds(weight, a, b)));
    Value activation = weight;
    activation.kind = ValueKind::Activation;
    EXPECT_TRUE(std::isfinite(shardings.reshardSeconds(activation, b, a)));
  }
}

/// A small weight of a long sequence is best copied to all ranks, where it may be.
TEST(Software, WeightsOfProductsAreSplitWhereTheyStay) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {1, 65536, 64});
  ValueId w = builder.argument(ValueKind::Parameter, {64, 64});
  Problem forward = builder.finish({builder.pointwise(builder.contract(x, w))}, 1);
  auto sharding = [&](bool gathers) {
    Cluster on = cluster("dgx-a100");
    on.software.gathersWeights = gathers;
    SearchOutcome result = search(forward, on, {4, *parseSpec("tp=4")});
    return result ? shardingOf(forward, result->plan, "a1") : result.error().message;
  };
  EXPECT_EQ(sharding(true), "[{}, {}]");
  EXPECT_NE(sharding(false).find("tp"), std::string::npos) << sharding(false);
}

/// Megatron-LM, docs/source/api-guide/dist_optimizer.md: 18 bytes a parameter with
/// fp32 gradients, 20 with half ones.
TEST(Software, HalfGradientsAreCopiedForTheUpdate) {
  Problem problem;
  problem.optimizer = {2, 4, 4, 4};
  problem.values = {{"w", {1024, 1024}, DType::BF16, ValueKind::Parameter, true}};
  Mesh mesh;
  auto bytes = [&](bool half) {
    Software software;
    software.halfGradients = half;
    return parameterBytes(problem, 0, true, TensorSharding::replicated(2), mesh, software);
  };
  // What stays, and the most that there is at a time.
  auto resident = [](const ParameterBytes &of) { return of.most() - of.update; };
  EXPECT_EQ(resident(bytes(false)), 18 << 20);
  EXPECT_EQ(bytes(false).most(), 18 << 20);
  EXPECT_EQ(bytes(false).gradient, 4 << 20);
  EXPECT_EQ(resident(bytes(true)), 16 << 20) << "the copy is there for the update alone";
  EXPECT_EQ(bytes(true).most(), 20 << 20);
  EXPECT_EQ(bytes(true).gradient, 2 << 20);
}

/// Of data-parallel ranks, here those that share a sequence.
TEST(Software, BucketsHoldGradientsTwice) {
  Problem gpt = halfGpt();
  const char *spec = "cp=2,zero=0,recompute=none";
  Prediction none = predicted(gpt, {}, 2, spec);
  Prediction some = predicted(gpt, {.bucketElements = 1000000}, 2, spec);
  Prediction most = predicted(gpt, {.bucketElements = 1000000000}, 2, spec);
  EXPECT_EQ(some.memory.gradients - none.memory.gradients, 2 * 1000000 * 4);
  // The positions' gradients stay with the ranks that have these positions.
  double all = double(none.memory.gradients - int64_t{2048} * 4096 * 4 / 2);
  EXPECT_NEAR(double(most.memory.gradients), double(none.memory.gradients) + 2 * all, 0.01 * all);
  EXPECT_EQ(predicted(gpt, {.bucketElements = 1000000}, 1, "dp=1").memory.gradients,
            predicted(gpt, {}, 1, "dp=1").memory.gradients);
}

/// Reduced after the backward pass, a bucket is there for the update alone.
TEST(Software, BucketsThatNothingHidesAreTemporary) {
  Problem gpt = halfGpt();
  const char *spec = "cp=2,zero=0,recompute=none";
  Prediction none = predicted(gpt, {.overlapCommunication = false}, 2, spec);
  Prediction some =
      predicted(gpt, {.overlapCommunication = false, .bucketElements = 1000000}, 2, spec);
  EXPECT_EQ(some.memory, none.memory);
}

/// Of 20 billion parameters: products of bytes and elements don't fit in 64 bits.
TEST(Software, BucketsOfLargeModelsAreNoLargerThanTheyAre) {
  Problem large = transformer({8, 16384, 128, 128, 2, 4096});
  const char *spec = "dp=2,tp=1,pp=1,zero=0,recompute=full,micro_batch=1";
  Prediction none = predicted(large, {}, 2, spec);
  Prediction some = predicted(large, {.bucketElements = 500000000}, 2, spec);
  EXPECT_EQ(some.memory.gradients - none.memory.gradients, int64_t{2} * 500000000 * 4);
}

TEST(Software, NormsOfGradientsAndUpdatesMayTakeTheMostMemory) {
  Problem gpt = halfGpt();
  auto memory = [&](const Software &software) {
    return predicted(gpt, software, 1, "dp=1,zero=0,recompute=full").memory;
  };
  MemoryUse none = memory({}), update = memory({.updateTemporaries = 20});
  int64_t all = 20 * 2 * none.parameters; // in fp32
  EXPECT_NEAR(double(update.optimizer - none.optimizer), double(all), 1e-4 * double(all));
  EXPECT_EQ(update.activations, 0);
  MemoryUse norm = memory({.normTemporaries = 20});
  EXPECT_NEAR(double(norm.optimizer - none.optimizer), double(all), 1e-4 * double(all));
  // They are gone when the update begins.
  EXPECT_EQ(memory({.normTemporaries = 20, .updateTemporaries = 20}), norm);
}

TEST(Software, CopiesOfHalfGradientsArentThereWhileActivationsAre) {
  Problem gpt = transformer({2, 1024, 16, 1024, 8, 8192});
  auto memory = [&](bool half) {
    return predicted(gpt, {.halfGradients = half}, 1, "dp=1,zero=0,recompute=none").memory;
  };
  EXPECT_EQ(memory(false).total() - memory(true).total(), memory(true).gradients);
}

/// Split over eight devices, parameters and gradients take 6/8 bytes a parameter while the whole
/// model takes 2. That is more than the optimizer's 12/8 that come later.
TEST(Software, WholeModelsMayTakeTheMostMemory) {
  Problem gpt = transformer({48, 2048, 16, 128, 8, 1024});
  const char *spec = "dp=8,tp=1,pp=1,zero=3,zero_group=8,recompute=full,micro_batch=1";
  MemoryUse none = predicted(gpt, {}, 8, spec).memory;
  MemoryUse flat = predicted(gpt, {.flattens = true}, 8, spec).memory;
  int64_t parameters = int64_t{48} * 12 * 2048 * 2048 + 2048 * 1024;
  EXPECT_EQ(none.parameters, 2 * parameters / 8);
  EXPECT_EQ(flat.parameters, 2 * parameters / 8 + 2 * parameters - 12 * parameters / 8);
  EXPECT_GT(flat.allocated(), none.allocated());
  EXPECT_EQ(flat.activations, 0);
}

TEST(Software, HalfGradientsMayStayBesideTheirSums) {
  Problem gpt = halfGpt();
  const char *spec = "dp=1,zero=0,recompute=none";
  MemoryUse none = predicted(gpt, {}, 1, spec).memory;
  MemoryUse kept = predicted(gpt, {.keepsHalfGradients = true}, 1, spec).memory;
  EXPECT_EQ(kept.gradients - none.gradients, none.gradients / 2);
  EXPECT_EQ(predicted(gpt, {.halfGradients = true, .keepsHalfGradients = true}, 1, spec)
                .memory.gradients,
            none.gradients / 2);
}

/// DeepSpeed's BF16_Optimizer: all fp32 sums are cast to bf16 for an all-reduce.
TEST(Software, HalfSumsAreCopiedToBeReduced) {
  Problem gpt = halfGpt();
  for (const char *spec : {"cp=2,zero=0,recompute=none", "cp=2,zero=1,recompute=none"}) {
    auto run = [&](bool half) {
      return predicted(gpt, {.overlapCommunication = false, .keepsHalfGradients = true,
                             .reducesHalfSums = half, .cachingAllocator = true}, 2, spec);
    };
    Prediction sums = run(false), halves = run(true);
    auto reduced = [](const Prediction &prediction, StepKind kind) {
      double bytes = 0;
      for (const CollectiveUse &use : prediction.collectives)
        bytes += use.kind == kind && use.axis == "cp" ? double(use.bytes) * double(use.count) : 0;
      return bytes;
    };
    // Gradients of keys and values are scattered in either.
    double whole = reduced(sums, StepKind::AllReduce) + reduced(sums, StepKind::ReduceScatter) -
                   reduced(halves, StepKind::ReduceScatter);
    EXPECT_NEAR(reduced(halves, StepKind::AllReduce), whole / 2, 1e-6 * whole) << spec;
    EXPECT_GT(halves.memory.allocated(), sums.memory.allocated()) << spec;
  }
  // Gradients that are scattered each microbatch aren't copied.
  auto scattered = [&](bool half) {
    return predicted(gpt, {.keepsHalfGradients = true, .reducesHalfSums = half}, 2,
                     "cp=2,zero=2,recompute=none");
  };
  EXPECT_EQ(scattered(true), scattered(false));
}

/// In one piece, for most of which the cache of smaller activations has no place.
TEST(Software, TheCopyOfHalfSumsIsOnePiece) {
  Problem gpt = transformer({8, 2048, 16, 512, 64, 8192});
  for (Value &value : gpt.values)
    if (value.type == DType::F32)
      value.type = DType::BF16;
  gpt.optimizer.gradientBytes = 4;
  auto run = [&](bool half) {
    return predicted(gpt, {.overlapCommunication = false, .keepsHalfGradients = true,
                           .reducesHalfSums = half, .cachingAllocator = true}, 2,
                     "dp=2,tp=1,pp=1,zero=0,recompute=none,micro_batch=16").memory;
  };
  MemoryUse sums = run(false), halves = run(true);
  EXPECT_EQ(halves.allocated(), sums.allocated()) << "activations are gone by then";
  EXPECT_GE(halves.cached - sums.cached, sums.parameters * 3 / 4);
}

TEST(Software, KernelsLoadedAtOnceTakeMemory) {
  Cluster on = cluster("dgx-a100");
  double lazy = CostModel(on, 8).reserve(1).context;
  on.software.lazyLoading = false;
  EXPECT_EQ(CostModel(on, 8).reserve(1).context - lazy, 1e9);
}

/// A compiled program writes a norm over what it normalizes, if nobody reads that again.
TEST(Software, RunOpByOpMakesNewTensors) {
  Problem gpt = halfGpt();
  ProblemFacts facts(gpt);
  for (bool compiled : {true, false}) {
    Cluster on = cluster("a100-80");
    on.software.compiled = compiled;
    SearchOptions options{1, *parseSpec("dp=1")};
    options.executable = false;
    SearchOutcome result = search(gpt, on, options);
    ASSERT_TRUE(result) << result.error().message;
    CostModel model(on, 1);
    RankExecution run(gpt, facts, result->plan, model);
    int norms = 0;
    for (const ExecutionStep &step : run.steps)
      if (!step.collective && gpt.ops[step.op].kind == OpKind::Normalization) {
        EXPECT_EQ(step.inPlace, compiled);
        ++norms;
      }
    EXPECT_GT(norms, 0);
  }
}

/// What makes a gradient adds it to those of earlier microbatches: a host launches nothing more.
TEST(Software, HostsLaunchNoSumsWithEarlierMicrobatches) {
  Problem gpt = halfGpt();
  Cluster on = cluster("a100-80");
  on.software.compiled = false;
  SearchOutcome result = found(gpt, 1, "dp=1", on);
  ASSERT_TRUE(result) << result.error().message;
  auto sum = std::find_if(gpt.ops.begin(), gpt.ops.end(),
                          [](const Op &op) { return op.kind == OpKind::GradientSum; });
  ASSERT_NE(sum, gpt.ops.end());
  ASSERT_EQ(sum->operands.size(), 2u);
  CostModel model(on, 1);
  auto launching = [&] {
    ProblemFacts facts(gpt);
    RankExecution run(gpt, facts, result->plan, model);
    auto step = std::find_if(run.steps.begin(), run.steps.end(), [&](const ExecutionStep &each) {
      return !each.collective && each.op == sum - gpt.ops.begin();
    });
    EXPECT_NE(step, run.steps.end());
    return step == run.steps.end() ? -1 : step->hostSeconds;
  };
  EXPECT_EQ(launching(), model.hostSeconds(1));
  EXPECT_GT(launching(), 0);
  gpt.values[sum->operands[0]].kind = ValueKind::Accumulator;
  EXPECT_EQ(launching(), 0);
}

TEST(Software, OfScatteredGradientsOnlyTheOwnPartIsAddedUp) {
  Problem problem = transformer(gpt7b(64));
  auto adding = [&](const std::string &zero) { // two microbatches take beyond one
    auto compute = [&](int64_t samples) {
      std::string spec = "dp=8,recompute=full,zero_group=8," + zero +
                         ",micro_batch=" + std::to_string(samples);
      return predicted(problem, {}, 8, "tp=1,pp=1,cp=1,ep=1," + spec).parts.compute;
    };
    return compute(4) - compute(8);
  };
  // Whole: a pass in the products that make them. A part: three over an eighth.
  CostModel model(cluster("dgx-a100"), 8);
  double difference = adding("zero=1") - adding("zero=2");
  double gradients = 4.0 * 6.7e9;
  EXPECT_NEAR(difference, 2 * model.streamSeconds(gradients * (1 - 3.0 / 8)), 0.05 * difference);
}
