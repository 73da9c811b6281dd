#include "Problems.h"

#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Search/Remedy.h"
#include "dtc/Schedule/Descriptor.h"

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// A product and its gradients' worth of parameters: batch 16, width 512.
Problem layers(int64_t batch) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {batch, 128, 512});
  ValueId up = builder.argument(ValueKind::Parameter, {512, 2048});
  ValueId down = builder.argument(ValueKind::Parameter, {2048, 512});
  return builder.finish({builder.contract(builder.pointwise(builder.contract(x, up)), down)},
                        batch);
}

} // namespace

TEST(Search, RanksEveryMesh) {
  SearchResult result = plan(layers(16), 4, "auto");
  EXPECT_FALSE(result.pinned);
  ASSERT_GE(result.alternatives.size(), 2u);
  EXPECT_LE(result.predicted.stepSeconds, result.alternatives[0].predicted.stepSeconds);
  EXPECT_LE(result.alternatives[0].predicted.stepSeconds,
            result.alternatives[1].predicted.stepSeconds);
  for (const auto &alternative : result.alternatives)
    EXPECT_EQ(alternative.degrees.devices(), 4);
  EXPECT_EQ(result.plan.degrees.dp, 4) << "without gradients nothing beats data parallelism";
}

TEST(Search, HonoursWhatIsPinned) {
  SearchResult result = plan(layers(16), 4, "tp=4");
  EXPECT_EQ(result.plan.degrees.tp, 4);
  EXPECT_EQ(result.plan.degrees.dp, 1);
  EXPECT_EQ(plan(layers(16), 4, "dp=2").plan.degrees.tp, 2);
}

static std::string refusal(const Problem &problem, int64_t devices, const std::string &spec,
                           ErrorCategory category, const Cluster &on = cluster("dgx-h100")) {
  auto result = search(problem, on, {devices, *parseSpec(spec)});
  if (result)
    return "planned " + summary(result->plan.degrees);
  EXPECT_EQ(result.error().category, category) << result.error().message;
  return refusalText(result);
}

/// Without a backward pass, pipelines are compiled, too.
TEST(Search, CutsWhatTrainsNothing) {
  SearchResult result = plan(layers(16), 4, "pp=2");
  EXPECT_EQ(result.plan.degrees.pp, 2);
  EXPECT_FALSE(describe(result.plan.degrees.schedule).splitsBackward());
  for (const StagePrediction &stage : result.predicted.stages)
    EXPECT_EQ(stage.backwardSeconds, 0);
}

TEST(Search, SaysWhyNoMeshIsPossible) {
  EXPECT_EQ(refusal(layers(6), 4, "dp=4", ErrorCategory::NoFit),
            "no plan for 4 devices: dp doesn't divide the batch of 6: 4");
  EXPECT_EQ(refusal(layers(16), 4, "dp=2,tp=2,micro_batch=3", ErrorCategory::NoFit),
            "no plan for 4 devices: with dp=2 a rank has 8 samples, which can't be cut into "
            "microbatches of 3");
  EXPECT_EQ(
      refusal(layers(16), 512, "dp=1", ErrorCategory::NoFit),
      "no plan for 512 devices: degrees divide the number of devices, and those that do make up "
      "fewer: dp=1, tp up to 8, cp up to 1, pp up to 2");
  EXPECT_EQ(
      refusal(layers(16), 4096, "auto", ErrorCategory::NoFit),
      "no plan for 4096 devices: degrees divide the number of devices, and those that do make "
      "up fewer: dp up to 16 (of a batch of 16), tp up to 8, cp up to 1, pp up to 2");
}

TEST(Search, WhatCostsLeastToChangeIsUnpinnedFirst) {
  auto names = [](const Spec &spec) {
    std::string text;
    for (const Unpinned &pin : withoutEachPin(spec))
      text += (text.empty() ? "" : " ") + std::string(pin.setting->name);
    return text;
  };
  Degrees degrees;
  degrees.zeroGroup = 2;
  Spec all = pinned(degrees, {});
  all.sp = true;
  EXPECT_EQ(names(all), "zero micro_batch recompute schedule chunks sp zero_group offload order dp "
                        "tp pp cp ep");
  all.groups = {{}, {}};
  EXPECT_EQ(names(all), "zero recompute schedule chunks sp zero_group offload order stage_groups");
  Spec rest = withoutEachPin(all).back().spec;
  EXPECT_TRUE(rest.groups.empty() && !rest.dp && !rest.tp && !rest.pp && !rest.microBatch);
  EXPECT_TRUE(rest.cp && rest.ep && rest.sp);
}

/// A plan that doesn't fit in its calls leaves open what changes no call.
TEST(Search, OnlyMeshAndMicrobatchSayWhatACallIs) {
  Degrees degrees;
  degrees.dp = 4;
  degrees.pp = 2;
  degrees.microBatch = 3;
  degrees.zero = 1;
  degrees.schedule = ScheduleKind::ZeroBubble;
  Spec asked;
  asked.zero = 2;
  const Spec spec = withCalls(degrees, asked);
  EXPECT_TRUE(spec.dp == 4 && spec.tp == 1 && spec.pp == 2 && spec.microBatch == 3);
  EXPECT_EQ(spec.zero, 2) << "as asked for";
  EXPECT_FALSE(spec.schedule || spec.chunks || spec.recompute || spec.offload || spec.sp);
}

TEST(Search, SaysWhatIsShortWhenNothingFits) {
  Cluster small = cluster("dgx-h100");
  small.device.memoryBytes = 1e6;
  std::string message = refusal(layers(16), 4, "auto", ErrorCategory::NoFit, small);
  EXPECT_TRUE(message.starts_with("no plan fits: ")) << message;
  EXPECT_NE(message.find("there are 0.95 MiB"), std::string::npos) << message;
  // What is pinned in full is shown all the same.
  auto pinned = search(layers(16), small, {4, *parseSpec("dp=2,tp=2,zero=0,recompute=none,micro_batch=8")});
  ASSERT_TRUE(pinned);
  EXPECT_FALSE(pinned->predicted.fits());
}

TEST(Search, ChoosesLayoutsThatFit) {
  // Replicated weights are fastest here (two tokens); split ones are smaller.
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {1, 2, 1024});
  ValueId w = builder.argument(ValueKind::Parameter, {1024, 1024});
  Problem problem = builder.finish({builder.softmax(builder.contract(x, w))}, 1);
  Cluster roomy = cluster("dgx-h100");
  roomy.device.architecture = Architecture::None; // nothing is reserved
  roomy.device.multiprocessors = 0;
  Cluster tight = roomy;
  roomy.levels = tight.levels = {{"link", 0, 1e9, 1e-2}};
  SearchResult large = *search(problem, roomy, {4, *parseSpec("tp=4")});
  EXPECT_EQ(large.predicted.memory.parameters, 1024 * 1024 * 4);
  tight.device.memoryBytes = 3e6;
  SearchResult fitting = *search(problem, tight, {4, *parseSpec("tp=4")});
  EXPECT_TRUE(fitting.predicted.fits());
  EXPECT_LE(fitting.predicted.memory.parameters, 2 * 1024 * 1024);
  EXPECT_GT(fitting.predicted.stepSeconds, large.predicted.stepSeconds);
}

TEST(Search, PredictsMemoryByLiveness) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {4, 16, 64});
  ValueId w1 = builder.argument(ValueKind::Parameter, {64, 64});
  ValueId w2 = builder.argument(ValueKind::Parameter, {64, 64});
  ValueId w3 = builder.argument(ValueKind::Parameter, {64, 64});
  Problem problem =
      builder.finish({builder.contract(builder.contract(builder.contract(x, w1), w2), w3)}, 4);
  Prediction predicted = plan(problem, 1, "auto").predicted;
  int64_t activation = 4 * 16 * 64 * 4;
  EXPECT_EQ(predicted.memory.activations, 2 * activation) << "at most two are live at once";
  EXPECT_EQ(predicted.memory.parameters, 3 * 64 * 64 * 4);
  EXPECT_EQ(predicted.memory.data, 2 * activation) << "input and output";
  EXPECT_EQ(predicted.modelFlops, 3 * 2.0 * 4 * 16 * 64 * 64);
}

TEST(Search, EveryPlanPassesVerification) {
  for (const char *name : {"gpt", "llama", "llama_kv2"})
    for (const char *spec : {"tp=1", "tp=2", "tp=4", "tp=8", "tp=4,sp=off", "tp=4,sp=on"}) {
      int64_t devices = spec[3] - '0';
      Problem problem = load(name);
      SearchResult result = plan(problem, devices, spec);
      auto violations = verify(problem, result.plan, cluster("dgx-h100"));
      EXPECT_TRUE(violations.empty()) << name << " " << spec << ": " << violations[0].message;
    }
}

/// Half of the microbatches on half of the devices, without a pipeline. What is estimated for both
/// is one sharding, and what is planned must be it.
TEST(Search, PlansTheShardingThatWasEstimated) {
  Problem problem = load("gpt");
  auto planned = [&](int64_t devices, const std::string &degrees) {
    problem.numMicrobatches = 7 * devices / 4;
    SearchOptions options{devices, *parseSpec(degrees + ",dp=1,tp=4,cp=1,ep=1,sp=on,zero=0,"
                                              "recompute=none,offload=none,micro_batch=1")};
    options.executable = false;
    auto result = search(problem, cluster("dgx-h100"), options);
    EXPECT_TRUE(result) << result.error().message;
    return *result;
  };
  SearchResult pipeline = planned(8, "pp=2,schedule=1f1b"), alone = planned(4, "pp=1");
  for (const char *weight : {"h.0.mlp.c_fc.weight", "h.0.attn.c_proj.weight"})
    EXPECT_EQ(shardingOf(pipeline.problem, pipeline.plan, weight),
              shardingOf(alone.problem, alone.plan, weight));
}
