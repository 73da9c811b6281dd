// What the search reckons with is what the chosen plan is predicted to cost.
#include "Planners/Realize.h"

#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// (Sharding is estimated without the sums of gradients over dp. Where two
/// shardings are about as fast, those may decide for the other one.)
TEST(Estimate, AgreesWithThePrediction) {
  TransformerSize size{16, 2048, 16, 1024, 64, 32768};
  Problem problem = transformer(size);
  ProblemFacts facts(problem);
  Cluster on = cluster("dgx-h100");
  ShardLibrary library(problem, on, 16, nullptr);
  Estimator estimator(library, problem, facts);
  int found = 0;
  for (const char *text :
       {"dp=16,tp=1,pp=1,zero=0,micro_batch=4", "dp=16,tp=1,pp=1,zero=3,micro_batch=1",
        "dp=4,tp=4,pp=1,zero=1,micro_batch=2", "dp=2,tp=2,pp=4,zero=1,micro_batch=1",
        "dp=2,tp=2,pp=4,zero=2,micro_batch=1,schedule=zb",
        "dp=4,tp=1,pp=4,zero=1,micro_batch=1,schedule=interleaved,chunks=4",
        "dp=1,tp=8,pp=2,zero=0,micro_batch=4,recompute=full",
        "dp=2,tp=2,pp=1,cp=4,zero=1,micro_batch=4,schedule=1f1b"}) {
    Spec spec = *parseSpec(text);
    Degrees degrees;
    degrees.dp = *spec.dp;
    degrees.tp = *spec.tp;
    degrees.pp = *spec.pp;
    degrees.cp = spec.cp.value_or(1);
    degrees.zero = *spec.zero;
    degrees.schedule = spec.schedule.value_or(ScheduleKind::OneFOneB);
    degrees.chunks = spec.chunks.value_or(1);
    degrees.recompute = spec.recompute.value_or(Recompute::None);
    degrees.microBatch = *spec.microBatch;
    degrees.numMicrobatches = 64 / (degrees.dp * degrees.microBatch);
    Estimate estimate;
    std::string error;
    auto outcome = estimator.estimate(degrees, {}, 1e9, true, estimate, error);
    ASSERT_EQ(outcome, Estimator::Outcome::Found) << text << ": " << error;
    auto whole = realize(problem, facts, on, library.getBlocks(), estimate, nullptr);
    ASSERT_TRUE(whole) << text << ": " << whole.error().message;
    const Prediction &predicted = whole->predicted;
    EXPECT_NEAR(estimate.seconds, predicted.stepSeconds, 0.01 * predicted.stepSeconds) << text;
    // Data are taken off the capacity.
    double used = double(predicted.memory.allocated() - predicted.memory.data);
    EXPECT_NEAR(estimate.memory, used, 0.02 * used) << text;
    EXPECT_LE(estimator.lowerBound(degrees, {}, error), predicted.stepSeconds) << text;
    ++found;
  }
  EXPECT_EQ(found, 8);
}
