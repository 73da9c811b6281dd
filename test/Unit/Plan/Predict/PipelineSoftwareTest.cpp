// How other programs than ours run pipelines and microbatches.
#include "Planner.h"
#include "Search/Candidates.h"
#include "Transformer.h"

#include <algorithm>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// So many equal layers, and another that the search counts to the head, which takes as
/// long as several.
Problem model(int64_t layers = 16) {
  return transformer({layers + 1, 1024, 16, 1024, 32, 65536});
}

std::vector<int64_t> layersOf(const Prediction &prediction) {
  std::vector<int64_t> layers;
  for (const StagePrediction &stage : prediction.stages)
    layers.push_back(stage.lastLayer - stage.firstLayer + 1);
  return layers;
}

std::vector<CollectiveUse> sent(const Prediction &prediction) {
  std::vector<CollectiveUse> sends;
  std::copy_if(prediction.collectives.begin(), prediction.collectives.end(),
               std::back_inserter(sends), [](const CollectiveUse &use) { return use.send; });
  return sends;
}

/// Of no dtc's program, whose update has few launches, and as fast as its otherwise.
const Software others{.lazyLoading = false};

constexpr char fourStages[] = "dp=1,pp=4,schedule=1f1b,recompute=none,micro_batch=2";

TEST(PipelineSoftware, MayCutIntoEqualNumbersOfLayers) {
  Problem problem = model();
  Prediction free = predicted(problem, {}, 4, fourStages);
  Prediction even = predicted(problem, {.evenStages = true}, 4, fourStages);
  ASSERT_EQ(layersOf(free).size(), 4u);
  EXPECT_LT(layersOf(free).back(), 4);
  EXPECT_EQ(layersOf(even), std::vector<int64_t>(4, 4));
  EXPECT_GT(even.stepSeconds, 1.02 * free.stepSeconds);
}

TEST(PipelineSoftware, CutsAsItLikesWhatCantBeEven) {
  Problem problem = model(9);
  EXPECT_EQ(layersOf(predicted(problem, {.evenStages = true}, 4, fourStages)),
            layersOf(predicted(problem, {}, 4, fourStages)));
}

TEST(PipelineSoftware, TriesAllChunksThatKeepStagesEqual) {
  Problem problem = model();
  ProblemFacts facts(problem);
  Spec spec = *parseSpec("dp=1,pp=4,schedule=interleaved,micro_batch=2");
  auto chunks = [&](bool even, int64_t layers = 24) {
    std::vector<int64_t> list;
    for (const Degrees &degrees :
         findCandidates(problem, facts, spec, {4, spec}, {.layers = layers, .evenStages = even})
             .list)
      list.push_back(degrees.chunks);
    return list;
  };
  EXPECT_EQ(chunks(false), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(chunks(true), (std::vector<int64_t>{2, 3, 4, 6}));
  // The ends as a layer each: 1, 10 times 2, and 1.
  EXPECT_EQ(chunks(false, 22), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(chunks(true, 22), (std::vector<int64_t>{2, 3, 4}));
}

TEST(PipelineSoftware, MakesEachMicrobatchReadyBeforeTheDeviceBegins) {
  Problem problem = model();
  const char *spec = "dp=1,recompute=none,micro_batch=2";
  double more = predicted(problem, {.waitsForBatches = true}, 1, spec).stepSeconds -
                predicted(problem, others, 1, spec).stepSeconds;
  EXPECT_NEAR(more, 16 * 2e-3, 1e-6) << "16 microbatches";
}

TEST(PipelineSoftware, WaitsForWhatItSendsUnlessThatOverlaps) {
  Problem problem = model();
  double beside = predicted(problem, {}, 4, fourStages).stepSeconds;
  double alone = predicted(problem, {.overlapCommunication = false}, 4, fourStages).stepSeconds;
  EXPECT_GT(alone, beside + 16 * 1e-5) << "each of 16 microbatches is sent twice";
}

/// Megatron-LM's overlap_p2p_comm, which 1F1B has not.
TEST(PipelineSoftware, MaySendBesideComputationInSomeSchedules) {
  Problem problem = model();
  auto seconds = [&](const char *schedule, bool overlaps) {
    Software software{.overlapCommunication = false};
    software.overlapsSends = overlaps;
    return predicted(problem, software, 4,
                     std::string("dp=1,pp=4,recompute=none,micro_batch=2,schedule=") + schedule)
        .stepSeconds;
  };
  for (const char *schedule : {"interleaved,chunks=2", "zb"})
    EXPECT_LT(seconds(schedule, true), seconds(schedule, false) - 8 * 1e-5) << schedule;
  EXPECT_EQ(seconds("1f1b", true), seconds("1f1b", false));
}

/// Narayanan et al. 2021, section 4.1: each of the 8 ranks of a node sends an eighth.
TEST(PipelineSoftware, MaySendPartsAndGatherThem) {
  Problem problem = model();
  const char *spec = "dp=1,tp=8,pp=2,sp=off,schedule=1f1b,recompute=none,micro_batch=2";
  Prediction whole = predicted(problem, {}, 16, spec);
  Prediction parts = predicted(problem, {.scattersSends = true}, 16, spec);
  ASSERT_EQ(sent(whole).size(), 1u);
  ASSERT_EQ(sent(parts).size(), 1u);
  EXPECT_EQ(sent(whole)[0].bytes, 2 * 1024 * 1024 * 2);
  EXPECT_EQ(sent(parts)[0].bytes, sent(whole)[0].bytes / 8);
  EXPECT_LT(sent(parts)[0].seconds, sent(whole)[0].seconds);
  EXPECT_EQ(parts.memory.total(), whole.memory.total()) << "what arrives is as large";
  // With sequence parallelism each rank holds its part alone.
  const char *split = "dp=1,tp=8,pp=2,sp=on,schedule=1f1b,recompute=none,micro_batch=2";
  EXPECT_EQ(predicted(problem, {.scattersSends = true}, 16, split).stepSeconds,
            predicted(problem, others, 16, split).stepSeconds);
}

TEST(PipelineSoftware, RecomputesAtTheHostsPace) {
  Problem problem = transformer({16, 64, 4, 64, 32, 128}); // no kernel takes longer than its launch
  Software eager{.compiled = false};
  auto seconds = [&](const char *recompute) {
    return predicted(problem, eager, 1,
                     std::string("dp=1,micro_batch=2,recompute=") + recompute);
  };
  Prediction none = seconds("none"), full = seconds("full");
  EXPECT_GT(full.stepSeconds - none.stepSeconds, 0.9 * 16 * none.forwardSeconds)
      << "each layer is launched once more";
}

} // namespace
