// How many microbatches a rank keeps, by a schedule that takes a limit: pinned, or as memory
// allows.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Predict/StepEstimates.h"

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;
namespace schedule = dtc::schedule;
namespace simulate = dtc::simulate;

namespace {

/// Four ranks, which keep seven of 16 microbatches by themselves.
class KeptMicrobatches : public ::testing::Test {
protected:
  static inline const std::string kPipeline =
      "dp=1,tp=1,pp=4,cp=1,ep=1,zero=0,micro_batch=1,offload=none,schedule=list";
  const Problem problem = transformer({8, 1024, 16, 1024, 16, 8192});
  Cluster on = cluster("dgx-h100");

  SearchResult keeping(int64_t kept, const std::string &more = ",recompute=none") const {
    return best(problem, 4, kPipeline + more + ",kept=" + std::to_string(kept), on);
  }
  int64_t bytesKeeping(int64_t kept) const { return keeping(kept).predicted.memory.total(); }
  bool fits(int64_t kept) const { return keeping(kept).predicted.fits(); }
};

} // namespace

TEST_F(KeptMicrobatches, AreAsManyAsUsualWhereTheyFit) {
  const SearchResult open = best(problem, 4, kPipeline + ",recompute=none", on), seven = keeping(7);
  EXPECT_EQ(open.plan.degrees.kept, 7);
  EXPECT_EQ(open.plan, seven.plan);
  // Without a limit in a plan, as in files that don't say one, there is the usual one.
  Plan unsaid = seven.plan;
  unsaid.degrees.kept = 0;
  EXPECT_TRUE(verify(seven.problem, unsaid, on).empty());
  EXPECT_EQ(makeSchedule(scheduleShape(unsaid.degrees))->calls,
            makeSchedule(scheduleShape(seven.plan.degrees))->calls);
}

TEST_F(KeptMicrobatches, TakeMemoryAndSaveTime) {
  Prediction last;
  for (int64_t kept : {1, 2, 4, 7}) {
    Prediction now = keeping(kept).predicted;
    if (kept > 1) {
      EXPECT_GT(now.memory.total(), last.memory.total()) << kept;
      EXPECT_LT(now.stepSeconds, last.stepSeconds) << kept;
    }
    last = now;
  }
}

/// As many as fit, whichever that are.
TEST_F(KeptMicrobatches, AreTheMostThatFit) {
  for (int64_t most : {1, 2, 3, 5, 6}) {
    on.device.memoryBytes = 1e12;
    on.device.memoryBytes = double(bytesKeeping(most) + bytesKeeping(most + 1)) / 2;
    ASSERT_TRUE(fits(most));
    ASSERT_FALSE(fits(most + 1));
    const SearchResult open = best(problem, 4, kPipeline + ",recompute=none", on);
    EXPECT_TRUE(open.predicted.fits()) << most;
    EXPECT_EQ(open.plan.degrees.kept, most);
  }
}

/// Keeping fewer, computing blocks again, or both: whichever is fastest.
TEST_F(KeptMicrobatches, AreWeighedAgainstRecomputation) {
  const int64_t all = bytesKeeping(7), least = bytesKeeping(1);
  int others = 0, mixed = 0;
  for (double share : {0.1, 0.4, 0.8}) {
    on.device.memoryBytes = double(least) + share * double(all - least);
    const SearchResult open = best(problem, 4, kPipeline, on);
    ASSERT_TRUE(open.predicted.fits()) << share;
    for (int64_t kept : {1, 2, 4, 7})
      if (auto other = found(problem, 4, kPipeline + ",kept=" + std::to_string(kept), on);
          other && other->predicted.fits()) {
        ++others;
        EXPECT_LE(open.predicted.stepSeconds, 1.0001 * other->predicted.stepSeconds)
            << share << " " << summary(open.plan.degrees) << ", kept=" << kept;
      }
    mixed += open.plan.degrees.kept < 7 && open.plan.degrees.recompute != Recompute::None;
  }
  EXPECT_GT(others, 8);
  EXPECT_GT(mixed, 0);
}

/// Gradients that are long on their way come back after seven microbatches.
TEST_F(KeptMicrobatches, AreMoreWhereThatIsFaster) {
  const std::string rest = kPipeline + ",recompute=none";
  const Problem many = transformer({8, 1024, 16, 1024, 64, 8192});
  on.levels = {{"link", 0, 1e12, 4 * keeping(7).predicted.stepSeconds / 64}};
  const SearchResult open = best(many, 4, rest, on), usual = best(many, 4, rest + ",kept=7", on);
  EXPECT_EQ(open.plan.degrees.kept, 14);
  EXPECT_LT(open.predicted.stepSeconds, 0.99 * usual.predicted.stepSeconds);
  EXPECT_GT(open.predicted.memory.total(), usual.predicted.memory.total());
}

TEST_F(KeptMicrobatches, NothingFitsWhereOneDoesNot) {
  on.device.memoryBytes = 0.9 * double(bytesKeeping(1));
  SearchOutcome refused = found(problem, 4,
                                "pp=4,zero=0,micro_batch=1,offload=none,recompute=none,"
                                "dp=1,schedule=list,sp=off,kept=7",
                                on);
  const SearchResult closest = best(problem, 4, kPipeline + ",recompute=none", on);
  EXPECT_FALSE(closest.predicted.fits());
  EXPECT_EQ(closest.plan.degrees.kept, 1) << "of what is pinned in full, what comes closest";
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->predicted.fits());
  EXPECT_EQ(refused->plan.degrees.kept, 7);
}

TEST_F(KeptMicrobatches, AreRefusedBesideOtherSchedules) {
  for (auto [spec, message] :
       {std::pair("pp=4,schedule=zb,kept=3", "plan: kept=3 needs schedule=list, got schedule=zb"),
        {"pp=4,kept=3", "plan: kept=3 needs schedule=list"}}) {
    SearchOutcome refused = found(problem, 4, spec);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, message);
    EXPECT_EQ(refused.error().category, ErrorCategory::Usage);
  }
  EXPECT_EQ(found(problem, 4, "pp=1,schedule=list,kept=3").error().message,
            "no plan for 4 devices: a limit of kept microbatches needs several stages, got kept=3");
  EXPECT_EQ(parseSpec("kept=0").error().message, "plan: kept expects a positive integer, got '0'");
  SearchResult broken = keeping(3);
  broken.plan.degrees.schedule = ScheduleKind::ZeroBubble;
  const std::vector<Violation> violations = verify(broken.problem, broken.plan, on);
  ASSERT_FALSE(violations.empty());
  EXPECT_EQ(violations[0].message, "there is no such schedule: schedule=zb takes no limit of kept "
                                   "microbatches, got kept=3");
}

TEST_F(KeptMicrobatches, NoPlanTakesLessThanItsFloor) {
  Planner planner(problem, on, 4);
  for (int64_t kept = 1; kept <= 8; ++kept) {
    const SearchResult result = keeping(kept);
    std::string error;
    EXPECT_LE(planner.estimator.lowerBound(result.plan.degrees, {}, error),
              result.predicted.stepSeconds)
        << kept;
  }
}

/// Long steps of any limit, with messages that take up to as long as a pass.
TEST(KeptMicrobatchesOfLongSteps, AreEstimatedAsTheyAre) {
  for (int64_t ranks : {3, 4, 8})
    for (int64_t kept = 1; kept <= 4 * ranks; ++kept)
      for (double latency : {0.0, 0.5, 1.0}) {
        schedule::ScheduleShape shape{ScheduleKind::ListScheduled, ranks, 1, 30 * ranks + 1, kept};
        simulate::Costs costs;
        for (int64_t stage = 0; stage < ranks; ++stage) {
          simulate::StageCost &cost = costs.stages.emplace_back();
          cost.forward.compute = cost.inputGrad.compute = cost.weightGrad.compute = 1;
          cost.savedBytes = cost.keptBytes = 1;
        }
        costs.boundaries.resize(size_t(ranks - 1));
        for (simulate::Boundary &boundary : costs.boundaries)
          boundary.latency = latency;
        costs.ranks.resize(size_t(ranks));
        StepEstimate estimate = StepEstimates(/*trains=*/true).estimate(shape, costs);
        simulate::Timeline exact = simulate::simulate(*makeSchedule(shape), costs);
        EXPECT_NEAR(estimate.seconds, exact.stepSeconds, 0.002 * exact.stepSeconds)
            << ranks << " " << kept << " " << latency;
        for (int64_t rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(estimate.peakBytes[rank], exact.ranks[rank].peakBytes) << ranks << " " << kept;
      }
}
