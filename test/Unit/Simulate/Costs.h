// Costs for tests of the simulator.
#pragma once

#include "dtc/Simulate/Simulate.h"

#include <gtest/gtest.h>

namespace dtc::simulate {

/// Equal stages with communication for free; a microbatch keeps one byte.
inline Costs equalStages(const schedule::ScheduleShape &shape, double forward = 1,
                         double inputGrad = 1, double weightGrad = 1) {
  Costs costs;
  StageCost stage;
  stage.forward.compute = forward;
  stage.inputGrad.compute = inputGrad;
  stage.weightGrad.compute = weightGrad;
  stage.savedBytes = stage.keptBytes = 1;
  costs.stages.assign(shape.stages(), stage);
  costs.boundaries.resize(shape.stages() - 1);
  costs.ranks.resize(shape.ranks);
  return costs;
}

inline Timeline run(const schedule::ScheduleShape &shape, const Costs &costs,
                    bool trace = false) {
  std::optional<schedule::Schedule> schedule = schedule::makeSchedule(shape);
  EXPECT_TRUE(schedule) << schedule::unsupported(shape);
  if (!schedule)
    return {};
  Timeline timeline = simulate(*schedule, costs, {trace});
  EXPECT_EQ(timeline.error, "");
  return timeline;
}

} // namespace dtc::simulate
