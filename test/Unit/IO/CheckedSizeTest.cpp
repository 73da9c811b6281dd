#include "dtc-io/CheckedSize.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

using dtc::io::CheckedSize;

namespace {

constexpr int64_t kLarge = int64_t(1) << 40, kMost = std::numeric_limits<int64_t>::max();

TEST(CheckedSize, ComputesWhatFits) {
  CheckedSize size = CheckedSize(3) * 4 + 5;
  ASSERT_TRUE(size);
  EXPECT_EQ(*size, 17);
  EXPECT_EQ(*(size - 17), 0);
}

TEST(CheckedSize, StaysNoneOnceItIs) {
  for (CheckedSize none : {CheckedSize(-1), CheckedSize(kMost), CheckedSize(kLarge) * kLarge,
                           CheckedSize(kMost / 2 + 1) + (kMost / 2 + 1), CheckedSize(1) - 2}) {
    EXPECT_FALSE(none);
    EXPECT_FALSE(none * 0);
    EXPECT_FALSE(none + 1);
    EXPECT_FALSE(CheckedSize(1) - none);
    EXPECT_FALSE(none.isAtMost(kMost));
  }
}

TEST(CheckedSize, CountsElements) {
  auto product = [](std::vector<int64_t> shape) { return CheckedSize::product(shape); };
  EXPECT_EQ(*product({}), 1);
  EXPECT_EQ(*product({2, 3, 4}), 24);
  EXPECT_EQ(*product({kLarge, kLarge, 0}), 0) << "empty, whatever the others are";
  EXPECT_FALSE(product({kLarge, kLarge}));
  EXPECT_FALSE(product({int64_t(1) << 32, int64_t(1) << 32})) << "wraps to 0";
  EXPECT_FALSE(product({-1, 0}));
  EXPECT_FALSE(product({-2, -2}));
}

TEST(CheckedSize, IsComparedWithALimit) {
  EXPECT_TRUE(CheckedSize(7).isAtMost(7));
  EXPECT_FALSE(CheckedSize(8).isAtMost(7));
}

} // namespace
