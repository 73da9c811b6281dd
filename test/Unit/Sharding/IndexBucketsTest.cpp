#include "dtc/Sharding/IndexBuckets.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

// 524 blocks of 96 rows each would read all indices.
TEST(IndexBuckets, ManyIndicesAreSortedBefore) {
  std::optional<IndexBuckets> buckets = bucketsOf(50304, 65536, 8);
  ASSERT_TRUE(buckets);
  EXPECT_EQ(buckets->rows, 96);
  EXPECT_EQ(buckets->buckets, 524);
  EXPECT_EQ(buckets->parts, 32);
  EXPECT_EQ(buckets->elements(), 32 * (525 + 2048));
}

TEST(IndexBuckets, FewIndicesAreReadByAllBlocks) {
  EXPECT_FALSE(bucketsOf(50304, 1024, 8));
  EXPECT_TRUE(bucketsOf(50304, 4096, 8));
  EXPECT_FALSE(bucketsOf(50304, 4096, 4));
}

TEST(IndexBuckets, SmallTablesHaveFewBlocks) {
  EXPECT_FALSE(bucketsOf(2, 65536, 8));
  EXPECT_FALSE(bucketsOf(0, 65536, 8));
  EXPECT_FALSE(bucketsOf(50304, 0, 8));
}

// A row and a place in a part are one number of 31 bits.
TEST(IndexBuckets, EntriesFit) {
  EXPECT_TRUE(bucketsOf(int64_t(528) << 19, 65536, 8));
  EXPECT_FALSE(bucketsOf(int64_t(528) << 20, 65536, 8));
}
