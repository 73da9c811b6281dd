#include "dtc/Lower/ScheduleBuilder.h"

#include <gtest/gtest.h>

using namespace dtc::lower;

namespace {

const std::vector<StepFunction> kTraining = {
    {"prologue", Cadence::OncePerStep},
    {"clear", Cadence::OncePerStep},
    {"loss_and_grads", Cadence::OncePerMicrobatch},
    {"update", Cadence::OncePerStep},
};

TEST(ScheduleBuilder, Accumulation) {
  ScheduleBuilder builder(kTraining, 3);
  buildAccumulation(builder);
  std::vector<Call> expected = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {2, 1, 0}, {2, 2, 0}, {3, 0, 0}};
  EXPECT_EQ(builder.getCalls(), expected);
  EXPECT_EQ(builder.verify(), "");
}

TEST(ScheduleBuilder, ForwardAlone) {
  ScheduleBuilder builder({{"forward", Cadence::OncePerMicrobatch}}, 1);
  buildAccumulation(builder);
  EXPECT_EQ(builder.getCalls(), (std::vector<Call>{{0, 0, 0}}));
}

TEST(ScheduleBuilder, VerifyNamesWhatIsWrong) {
  ScheduleBuilder missing(kTraining, 2);
  buildAccumulation(missing);
  ScheduleBuilder partial(kTraining, 2);
  for (const char *name : {"prologue", "clear", "update"})
    ASSERT_TRUE(partial.call(name));
  ASSERT_TRUE(partial.call("loss_and_grads", 1));
  EXPECT_EQ(partial.verify(), "loss_and_grads is called a wrong number of times: 0");
  ScheduleBuilder outside(kTraining, 2);
  ASSERT_TRUE(outside.call("update", 1));
  EXPECT_EQ(outside.verify(), "microbatch out of range in a call of update: 1");
  EXPECT_FALSE(outside.call("forward"));
}

} // namespace
