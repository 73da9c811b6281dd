// As few recomputed blocks on each rank as all of its chunks together ask for.
#include "Search/ChunkRecomputation.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace dtc;
using namespace dtc::plan;

namespace {

/// Two ranks with two chunks of two blocks of a unit, which keep 1 GB of a microbatch each:
/// 4 and 2 microbatches of rank 0's chunks, 2 and 1 of rank 1's.
struct Pipeline {
  Pipeline() {
    schedule.shape = {schedule::ScheduleKind::Interleaved, 2, 2, 4};
    schedule.placement = schedule::Placement::inTurn(2, 2);
    schedule.slots = {{4, 2}, {2, 1}};
    for (int stage = 0; stage < 4; ++stage) {
      runs.emplace_back(2 * stage, 2 * stage + 2);
      ends.push_back({2 * stage + 1, 2 * stage + 2});
    }
  }
  bool recompute(std::vector<int> room) {
    return recomputeFewest(schedule, ends, [&](const StageCosts::Runs &now) {
      std::vector<bool> fits;
      for (size_t rank = 0; rank < 2; ++rank) {
        int held = 0;
        for (size_t chunk = 0; chunk < 2; ++chunk)
          held += (now[2 * chunk + rank].end - now[2 * chunk + rank].kept) *
                  schedule.slots[rank][chunk];
        fits.push_back(held <= room[rank]);
      }
      return fits;
    }, runs);
  }
  /// By stage.
  std::vector<int> recomputed() const {
    std::vector<int> counts;
    for (const StageRun &run : runs)
      counts.push_back(run.kept - run.begin);
    return counts;
  }
  schedule::Schedule schedule;
  std::vector<std::vector<int>> ends;
  StageCosts::Runs runs;
};

using Counts = std::vector<int>;

} // namespace

TEST(ChunkRecomputation, TakesTheChunkThatKeepsMostFirst) {
  Pipeline pipeline;
  ASSERT_TRUE(pipeline.recompute({9, 6}));
  EXPECT_EQ(pipeline.recomputed(), (Counts{1, 0, 0, 0}));
  ASSERT_TRUE(pipeline.recompute({3, 3}));
  EXPECT_EQ(pipeline.recomputed(), (Counts{2, 2, 1, 0}));
  // From the start, whatever the runs had before.
  ASSERT_TRUE(pipeline.recompute({12, 5}));
  EXPECT_EQ(pipeline.recomputed(), (Counts{0, 1, 0, 0}));
}

TEST(ChunkRecomputation, TakesNoneWhereAllFitsAndFailsWhereNothingDoes) {
  Pipeline pipeline;
  ASSERT_TRUE(pipeline.recompute({12, 6}));
  EXPECT_EQ(pipeline.recomputed(), (Counts{0, 0, 0, 0}));
  ASSERT_TRUE(pipeline.recompute({0, 0}));
  EXPECT_EQ(pipeline.recomputed(), (Counts{2, 2, 2, 2}));
  EXPECT_FALSE(pipeline.recompute({-1, 6}));
}
