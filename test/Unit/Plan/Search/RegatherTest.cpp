// What ranks gathered of activations is kept for the backward pass, or gathered again.
#include "Planner.h"
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// Ranks gather again where keeping what they gathered would be slower, and only there.
TEST(Regather, WhereMemoryIsShort) {
  Problem problem = transformer(gpt7b(64));
  const std::string spec = "tp=8,sp=on,recompute=none";
  SearchResult roomy = best(problem, 8, spec);
  EXPECT_FALSE(roomy.plan.degrees.regather) << summary(roomy.plan.degrees);
  Cluster on = cluster("dgx-h100");
  int again = 0, faster = 0;
  for (double share : {0.9, 0.8, 0.6, 0.5, 0.3}) {
    on.device.memoryBytes = share * double(roomy.predicted.memory.total());
    SearchResult free = best(problem, 8, spec, on),
                 kept = best(problem, 8, spec + ",regather=off", on),
                 gathered = best(problem, 8, spec + ",regather=on", on);
    const double seconds = free.predicted.stepSeconds, ofKept = kept.predicted.stepSeconds;
    EXPECT_TRUE(free.predicted.fits()) << share;
    EXPECT_EQ(seconds, std::min(ofKept, gathered.predicted.stepSeconds)) << share;
    EXPECT_EQ(free.plan.degrees.regather, seconds < ofKept) << share;
    again += free.plan.degrees.regather;
    faster += seconds < 0.95 * ofKept;
  }
  EXPECT_EQ(again, 3);
  EXPECT_GT(faster, 0);
}

/// Megatron's layouts of Llama-3 405B and of a GPT of 1T parameters, on as few H100 as they fill.
TEST(Regather, InLayoutsOfMegatron) {
  const TransformerSize sizes[] = {{126, 16384, 128, 8192, 32, 128256},
                                   {128, 25600, 160, 4096, 32, 51200}};
  const char *pipelines[] = {"pp=16", "pp=64"};
  for (size_t i = 0; i < std::size(sizes); ++i) {
    Problem problem = transformer(sizes[i]);
    const std::string spec = std::string("tp=8,sp=on,schedule=1f1b,recompute=none,") + pipelines[i];
    const int64_t devices = i == 0 ? 128 : 512;
    SearchResult free = best(problem, devices, spec);
    EXPECT_TRUE(free.predicted.fits()) << spec;
    EXPECT_TRUE(free.plan.degrees.regather) << spec;
    SearchResult kept = best(problem, devices, spec + ",regather=off");
    EXPECT_LT(free.predicted.stepSeconds, 0.85 * kept.predicted.stepSeconds) << spec;
  }
}

/// Other programs' software says it, and plans that are pinned in full have it off.
TEST(Regather, IsNotSearchedForOtherPrograms) {
  Problem problem = transformer(gpt7b(64));
  const std::string spec = "tp=8,sp=on,recompute=none";
  Cluster on = cluster("dgx-h100");
  on.device.memoryBytes = 0.9 * double(best(problem, 8, spec).predicted.memory.total());
  EXPECT_TRUE(best(problem, 8, spec, on).plan.degrees.regather);
  on.software.gathersAgain = true;
  EXPECT_FALSE(best(problem, 8, spec, on).plan.degrees.regather);
  const std::string inFull = "dp=1,cp=1,pp=1,ep=1,zero=0,micro_batch=32," + spec;
  SearchResult pinned = best(problem, 8, inFull);
  EXPECT_FALSE(pinned.plan.degrees.regather);
}
