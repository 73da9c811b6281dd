#include "dtc/Plan/Solve/Parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

using namespace dtc::plan;

TEST(Parallel, CallsEachNumberOnce) {
  for (size_t count : {size_t(0), size_t(1), size_t(2), size_t(1000)}) {
    std::vector<std::atomic<int>> calls(count);
    inParallel(count, [&](size_t i) { ++calls.at(i); });
    for (const std::atomic<int> &number : calls)
      EXPECT_EQ(number, 1) << count;
  }
}
