#include "Costs.h"

#include <cmath>

using namespace dtc::simulate;
using dtc::pipeline::ScheduleKind;
using dtc::pipeline::ScheduleShape;

//===----------------------------------------------------------------------===//
// What the literature says of equal stages and free communication
//===----------------------------------------------------------------------===//

TEST(Simulate, BubbleOfOneFOneBAndGPipe) {
  for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
    for (int64_t ranks : {1, 2, 4, 7})
      for (int64_t microbatches : {1, 3, 8, 32}) {
        ScheduleShape shape{kind, ranks, 1, microbatches};
        Timeline timeline = run(shape, equalStages(shape));
        EXPECT_DOUBLE_EQ(timeline.stepSeconds, 3.0 * double(microbatches + ranks - 1));
        EXPECT_NEAR(timeline.bubbleFraction,
                    double(ranks - 1) / double(microbatches + ranks - 1), 1e-12);
        EXPECT_EQ(timeline.exposedSeconds, 0);
      }
}

/// Narayanan et al. 2021: chunks divide the time lost in the bubble.
TEST(Simulate, InterleavingDividesTheBubble) {
  for (int64_t chunks : {1, 2, 4}) {
    ScheduleShape shape{ScheduleKind::Interleaved, 4, chunks, 16};
    double part = 1.0 / double(chunks);
    Timeline timeline = run(shape, equalStages(shape, part, part, part));
    EXPECT_NEAR(timeline.stepSeconds, 3 * (16 + 3 * part), 1e-9) << chunks;
    EXPECT_NEAR(timeline.bubbleFraction, 3 * part / (16 + 3 * part), 1e-9) << chunks;
  }
}

/// Qi et al. 2023, table 2: (P - 1) (F + B - W) instead of (P - 1) (F + B + W).
TEST(Simulate, ZeroBubbleLosesAThird) {
  for (int64_t ranks : {1, 2, 4, 8}) {
    ScheduleShape split{ScheduleKind::ZeroBubble, ranks, 1, 16};
    ScheduleShape whole{ScheduleKind::OneFOneB, ranks, 1, 16};
    EXPECT_DOUBLE_EQ(run(split, equalStages(split)).stepSeconds, 48.0 + double(ranks - 1));
    EXPECT_DOUBLE_EQ(run(whole, equalStages(whole)).stepSeconds, 48.0 + 3 * double(ranks - 1));
  }
}
