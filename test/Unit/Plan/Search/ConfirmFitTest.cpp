// Plans that are estimated to fit, and don't, must not keep a search from those that do.
#include "Planner.h"
#include "Search/Strategies.h"
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// For a program in Python, whose allocator caches. Segments of 2 and 20 MiB are most of what a
/// tiny model takes of a device, of which estimates know nothing.
static Cluster caching(double megabytes) {
  Cluster on = cluster("dgx-a100");
  on.device.architecture = Architecture::None; // nothing is reserved
  on.device.memoryBytes = megabytes * 1e6;
  on.software.cachingAllocator = true;
  on.software.compiled = false;
  return on;
}

TEST(ConfirmFit, AFreeSearchFindsWhatAPinnedOneDoes) {
  const Problem problem = transformer({4, 64, 4, 32, 32, 512});
  for (double megabytes : {2.6, 3.0}) {
    const Cluster on = caching(megabytes);
    SearchOptions options = optionsOf(4);
    options.findClosest = options.adviseOtherwise = false;
    SearchState state(problem, on, options, *fill(options.spec, options.devices));
    SearchOutcome free = runStrategies(state);
    ASSERT_TRUE(free) << megabytes;
    EXPECT_TRUE(free->predicted.fits()) << megabytes;
    EXPECT_TRUE(state.confirms) << "estimates have to be wrong here: " << megabytes;
    EXPECT_LE(state.effort(), 7500) << megabytes;
    for (const char *spec : {"pp=4,schedule=1f1b", "dp=2,pp=2"}) {
      options.spec = *parseSpec(spec);
      if (SearchOutcome pinned = search(problem, on, options))
        EXPECT_LE(free->predicted.stepSeconds, 1.01 * pinned->predicted.stepSeconds)
            << megabytes << " " << spec << ": " << summary(free->plan.degrees);
    }
  }
}

TEST(ConfirmFit, WithAShareOfTheMemoryMoreIsRecomputed) {
  const Problem problem = transformer({8, 1024, 16, 1024, 32, 8192});
  const Cluster on = cluster("dgx-a100");
  Planner planner(problem, on, 1);
  Degrees degrees;
  degrees.microBatch = 32;
  degrees.recompute = Recompute::Full;
  EstimateOptions options{.limit = 1e9, .someBlocks = true};
  Estimate all, part;
  std::string error;
  ASSERT_EQ(planner.estimator.estimate(degrees, {}, options, all, error), Estimator::Outcome::Found)
      << error;
  ASSERT_TRUE(all.recompute.empty());
  options.memoryShare = 0.8 * all.memory / all.capacity;
  ASSERT_EQ(planner.estimator.estimate(degrees, {}, options, part, error),
            Estimator::Outcome::Found)
      << error;
  EXPECT_FALSE(part.recompute.empty());
  EXPECT_LE(part.memory, 0.8 * all.memory);
  EXPECT_GT(part.seconds, all.seconds);
}
