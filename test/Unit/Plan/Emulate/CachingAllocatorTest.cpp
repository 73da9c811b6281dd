// PyTorch's allocator on plain sequences of requests.
#include "Emulate/CachingAllocator.h"

#include <gtest/gtest.h>

using dtc::plan::CachingAllocator;

static constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20, kPlenty = int64_t{1} << 40;

TEST(CachingAllocator, SmallRequestsShareSegmentsOfTwoMebibytes) {
  CachingAllocator memory(kPlenty);
  memory.allocate(1);
  EXPECT_EQ(memory.allocated(), 512);
  EXPECT_EQ(memory.reserved(), 2 * kMiB);
  memory.allocate(kMiB);
  EXPECT_EQ(memory.reserved(), 2 * kMiB);
  memory.allocate(kMiB); // the rest lacks 512 bytes
  EXPECT_EQ(memory.reserved(), 4 * kMiB);
  EXPECT_EQ(memory.allocated(), 2 * kMiB + 512);
}

TEST(CachingAllocator, RequestsBelowTenMebibytesShareSegmentsOfTwenty) {
  CachingAllocator memory(kPlenty);
  for (int i = 0; i < 4; ++i)
    memory.allocate(5 * kMiB);
  EXPECT_EQ(memory.reserved(), 20 * kMiB);
  memory.allocate(kMiB + 1);
  EXPECT_EQ(memory.reserved(), 40 * kMiB);
  memory.allocate(10 * kMiB); // of what is left of the second
  EXPECT_EQ(memory.reserved(), 40 * kMiB);
}

TEST(CachingAllocator, LargeRequestsAreRoundedToTwoMebibytes) {
  CachingAllocator memory(kPlenty);
  memory.allocate(11 * kMiB);
  EXPECT_EQ(memory.reserved(), 12 * kMiB);
  EXPECT_EQ(memory.allocated(), 12 * kMiB) << "a rest of a mebibyte isn't split off";
  memory.allocate(13 * kMiB - kMiB / 2);
  EXPECT_EQ(memory.reserved(), 26 * kMiB);
  EXPECT_EQ(memory.allocated(), 12 * kMiB + 13 * kMiB - kMiB / 2) << "one of 1.5 is";
}

TEST(CachingAllocator, TakesTheSmallestFreeBlockThatIsLargeEnough) {
  CachingAllocator memory(kPlenty);
  int large = *memory.allocate(64 * kMiB), middle = *memory.allocate(40 * kMiB),
      little = *memory.allocate(16 * kMiB);
  for (int block : {large, middle, little})
    memory.free(block);
  memory.allocate(32 * kMiB); // of the 40
  memory.allocate(60 * kMiB);
  EXPECT_EQ(memory.reserved(), 120 * kMiB);
  memory.allocate(8 * kMiB); // what is left of the 40
  memory.allocate(16 * kMiB);
  EXPECT_EQ(memory.reserved(), 120 * kMiB);
  EXPECT_EQ(memory.allocated(), 116 * kMiB);
}

/// A long-lived block between temporaries keeps them apart.
TEST(CachingAllocator, FragmentsOfASegmentJoinOnlyBesideEachOther) {
  CachingAllocator memory(kPlenty);
  memory.free(*memory.allocate(90 * kMiB));
  int first = *memory.allocate(30 * kMiB), kept = *memory.allocate(30 * kMiB),
      last = *memory.allocate(30 * kMiB);
  memory.free(first);
  memory.free(last);
  int larger = *memory.allocate(60 * kMiB);
  EXPECT_EQ(memory.reserved(), 150 * kMiB) << "60 MiB are free, but in two parts";
  memory.free(larger);
  memory.free(kept);
  memory.allocate(90 * kMiB);
  EXPECT_EQ(memory.reserved(), 150 * kMiB) << "all three are one again";
}

TEST(CachingAllocator, StreamsDontShareWhatIsFree) {
  CachingAllocator memory(kPlenty);
  memory.free(*memory.allocate(30 * kMiB, 0));
  memory.allocate(30 * kMiB, 1);
  EXPECT_EQ(memory.reserved(), 60 * kMiB);
  memory.allocate(30 * kMiB, 0);
  EXPECT_EQ(memory.reserved(), 60 * kMiB);
}

TEST(CachingAllocator, GivesBackFreeSegmentsBeforeItFails) {
  CachingAllocator memory(100 * kMiB);
  int first = *memory.allocate(40 * kMiB), second = *memory.allocate(40 * kMiB);
  memory.free(first);
  memory.free(second);
  ASSERT_TRUE(memory.allocate(70 * kMiB)) << "neither is large enough: both are given back";
  EXPECT_EQ(memory.reserved(), 70 * kMiB);
  EXPECT_EQ(memory.peakReserved(), 80 * kMiB);
  EXPECT_FALSE(memory.allocate(32 * kMiB));
  EXPECT_TRUE(memory.allocate(30 * kMiB));
}

TEST(CachingAllocator, ASegmentInUseIsNotGivenBack) {
  CachingAllocator memory(100 * kMiB);
  memory.free(*memory.allocate(60 * kMiB));
  ASSERT_TRUE(memory.allocate(2 * kMiB)) << "a part of the 60";
  EXPECT_FALSE(memory.allocate(59 * kMiB)) << "58 are free there, 40 of the device";
  EXPECT_TRUE(memory.allocate(58 * kMiB));
  EXPECT_EQ(memory.reserved(), 60 * kMiB);
}

TEST(CachingAllocator, ReservedNeverFallsBelowAllocated) {
  CachingAllocator memory(kPlenty);
  std::vector<int> live;
  uint64_t state = 1;
  for (int i = 0; i < 5000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t random = state >> 33;
    if (live.empty() || random % 3) {
      live.push_back(*memory.allocate(int64_t(random % (48 * kMiB))));
    } else {
      size_t at = random / 3 % live.size();
      memory.free(live[at]);
      live.erase(live.begin() + int64_t(at));
    }
    ASSERT_GE(memory.reserved(), memory.allocated());
  }
  for (int block : live)
    memory.free(block);
  EXPECT_EQ(memory.allocated(), 0);
  int64_t before = memory.reserved();
  EXPECT_EQ(before, memory.peakReserved());
  EXPECT_TRUE(memory.allocate(kKiB));
  EXPECT_EQ(memory.reserved(), before) << "all of it can be used again";
}
