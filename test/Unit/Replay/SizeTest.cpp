// A program as large as that of Llama 3.1 405B on 16 stages is replayed in time.
#include "PipelinePrograms.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

#include <sys/resource.h>

using namespace dtc;
using namespace dtc::replay::test;

TEST(Size, SixteenStagesOf128Microbatches) {
  // 8 layers a stage with about 60 instructions forward and twice as many backward; 64 ranks.
  Programs pipeline = makePipeline({{schedule::ScheduleKind::OneFOneB, 16, 1, 128}, 64, 480});
  const std::clock_t start = std::clock(); // of this process, whatever else runs
  EXPECT_EQ(pipeline.replay(), "");
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%.2f s, at most %.0f MB\n", seconds, usage.ru_maxrss / 1024.0);
  EXPECT_LT(seconds, 30);
  EXPECT_LT(usage.ru_maxrss, 2 << 20); // KiB
}
