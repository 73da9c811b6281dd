// Learning rates, sample orders and random numbers: functions of a position.
#include "dtc-rt/Files/Philox.h"
#include "dtc-rt/Files/SampleOrder.h"
#include "dtc-rt/LearningRate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace dtc::rt;
using Schedule = LearningRateInfo::Schedule;

TEST(LearningRate, WarmUpThenCosine) {
  // PyTorch's, as in test/models/gpt2.clip_cosine.json.
  LearningRateInfo info{Schedule::Cosine, 1e-3, 1e-5, 3, 10};
  const double expected[] = {0.0003333333333333333, 0.0006666666666666666, 0.001,
                             0.0009509795896116975, 0.0008136274519200731, 0.0006151478623083757,
                             0.00039485213769162444, 0.00019637254807992693, 5.902041038830258e-05,
                             1e-05};
  for (int step = 1; step <= 10; ++step)
    EXPECT_NEAR(learningRateAt(info, step), expected[step - 1], 1e-15) << step;
  EXPECT_EQ(learningRateAt(info, 11), 1e-5);
}

TEST(LearningRate, LinearAndConstant) {
  LearningRateInfo linear{Schedule::Linear, 1.0, 0.2, 0, 4};
  EXPECT_DOUBLE_EQ(learningRateAt(linear, 1), 0.8);
  EXPECT_DOUBLE_EQ(learningRateAt(linear, 4), 0.2);
  EXPECT_DOUBLE_EQ(learningRateAt(linear, 100), 0.2);
  LearningRateInfo constant{Schedule::Constant, 0.5, 0, 2, 0};
  EXPECT_DOUBLE_EQ(learningRateAt(constant, 1), 0.25);
  EXPECT_DOUBLE_EQ(learningRateAt(constant, 2), 0.5);
  EXPECT_DOUBLE_EQ(learningRateAt(constant, 99), 0.5);
}

TEST(LearningRate, WarmUpAsLongAsTheRun) {
  LearningRateInfo info{Schedule::Cosine, 1.0, 0.0, 4, 4};
  EXPECT_DOUBLE_EQ(learningRateAt(info, 3), 0.75);
  EXPECT_TRUE(std::isfinite(learningRateAt(info, 4)));
}

TEST(SampleOrder, InOrderWrapsAround) {
  SampleOrder order(3, false, 1);
  for (int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(order.at(i), i % 3);
}

TEST(SampleOrder, EveryEpochIsAnotherPermutation) {
  for (int64_t count : {1, 2, 5, 80, 1000, 4097}) {
    SampleOrder order(count, true, 7);
    std::set<std::vector<int64_t>> epochs;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<int64_t> list;
      for (int64_t i = 0; i < count; ++i)
        list.push_back(order.at(epoch * count + i));
      EXPECT_EQ(std::set<int64_t>(list.begin(), list.end()).size(), static_cast<size_t>(count));
      EXPECT_GE(*std::min_element(list.begin(), list.end()), 0);
      EXPECT_LT(*std::max_element(list.begin(), list.end()), count);
      epochs.insert(list);
    }
    EXPECT_EQ(epochs.size(), count >= 80 ? 4u : epochs.size());
  }
}

TEST(SampleOrder, DependsOnTheSeedAlone) {
  SampleOrder a(1000, true, 1), b(1000, true, 1), c(1000, true, 2);
  int64_t same = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a.at(i), b.at(i));
    same += a.at(i) == c.at(i);
  }
  EXPECT_LT(same, 20);
}

TEST(Philox, KnownAnswers) {
  // Random123's kat_vectors for philox4x32-10: counter and key all zeros, all ones.
  EXPECT_EQ(philox(0, RandomStream(0), 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, RandomStream(0xffffffff), 0xffffffff, ~0ull),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, NormalNumbersDependOnTheirIndexAlone) {
  std::vector<float> all(1000), part(301);
  drawNormal(5, RandomStream::Weights, 2, 0, 1000, all.data());
  drawNormal(5, RandomStream::Weights, 2, 333, 301, part.data());
  for (int i = 0; i < 301; ++i)
    EXPECT_EQ(part[i], all[333 + i]);
  double sum = 0, squares = 0;
  for (float value : all) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1000, 0, 0.1);
  EXPECT_NEAR(squares / 1000, 1, 0.15);
}
