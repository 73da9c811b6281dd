// The timetable: short steps call by call, long ones as shares, bounded in size.
#include "Timetable.h"

#include <gtest/gtest.h>

namespace dtc::report {

using simulate::EventKind;
using simulate::Timeline;

static Timeline timeline(schedule::ScheduleKind kind, int64_t ranks, int64_t chunks,
                         int64_t microbatches) {
  schedule::ScheduleShape shape{kind, ranks, chunks, microbatches};
  simulate::Costs costs;
  simulate::StageCost stage;
  stage.forward.compute = stage.inputGrad.compute = stage.weightGrad.compute = 1;
  costs.stages.assign(shape.stages(), stage);
  costs.boundaries.resize(shape.stages() - 1);
  costs.ranks.resize(ranks);
  return simulate::simulate(*schedule::makeSchedule(shape), costs, {true});
}

static std::string draw(const Timeline &timeline, int64_t chunks) {
  Html html;
  drawTimetable(html, timeline, chunks);
  return html.take();
}

static size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
    ++found;
  return found;
}

TEST(Timetable, EveryCallOfAShortStepHasItsNumber) {
  Timeline step = timeline(schedule::ScheduleKind::OneFOneB, 4, 1, 8);
  std::string drawing = draw(step, 1);
  // Forward and backward on four ranks, beside the axis.
  for (int microbatch = 0; microbatch < 8; ++microbatch)
    EXPECT_EQ(count(drawing, ">" + std::to_string(microbatch) + "</text>"),
              8u + (microbatch == 0 ? 1 : 0)) // the axis begins with 0
        << microbatch;
  EXPECT_EQ(count(drawing, "<svg"), 1u);
}

TEST(Timetable, ALongStepIsAnOverviewAndItsEnds) {
  std::string drawing = draw(timeline(schedule::ScheduleKind::Interleaved, 8, 4, 96), 4);
  EXPECT_EQ(count(drawing, "<svg"), 3u);
  EXPECT_NE(drawing.find("timetable-whole"), std::string::npos);
  EXPECT_NE(drawing.find(">95</text>"), std::string::npos); // the last microbatch
  EXPECT_EQ(drawing.find(">48</text>"), std::string::npos); // of the middle
}

TEST(Timetable, TheLargestStepsStaySmall) {
  for (auto [ranks, chunks, microbatches] :
       {std::tuple{64, 1, 512}, std::tuple{16, 8, 128}, std::tuple{128, 1, 256}})
    for (auto kind : {schedule::ScheduleKind::ZeroBubble, schedule::ScheduleKind::Interleaved}) {
      if (schedule::unsupported({kind, ranks, chunks, microbatches}).empty())
        EXPECT_LT(draw(timeline(kind, ranks, chunks, microbatches), chunks).size(), 260000u)
            << ranks << " " << chunks << " " << microbatches;
    }
}

TEST(Timetable, SharesAddUpToTheTimeSpent) {
  Timeline step = timeline(schedule::ScheduleKind::OneFOneB, 4, 1, 8);
  Shares shares = sharesOf(step, 2, 7);
  double forward = 0, backward = 0;
  for (const auto &share : shares) {
    forward += share[size_t(Activity::Forward)];
    backward += share[size_t(Activity::Backward)];
    EXPECT_LE(share[0] + share[1] + share[2] + share[3], 1 + 1e-9);
  }
  EXPECT_NEAR(forward * step.stepSeconds / 7, 8, 1e-9);
  EXPECT_NEAR(backward * step.stepSeconds / 7, 16, 1e-9);
}

TEST(Timetable, ShareOfAMomentIsWhatHappensInIt) {
  Timeline step;
  step.stepSeconds = 4;
  step.ranks.resize(1);
  step.events = {{EventKind::Forward, 0, 0, 0, 0, -1, 0.5, 2}};
  Shares shares = sharesOf(step, 0, 4);
  EXPECT_DOUBLE_EQ(shares[0][0], 0.5);
  EXPECT_DOUBLE_EQ(shares[1][0], 1);
  EXPECT_DOUBLE_EQ(shares[2][0], 0);
}

TEST(Timetable, OfManyRanksTheFirstAndTheLastAreDrawn) {
  EXPECT_EQ(rowsOf(3, 4), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(rowsOf(100, 4), (std::vector<int32_t>{0, 1, 98, 99}));
}

} // namespace dtc::report
