// Whether any plan fits is known without searching for the best one.
#include "Planner.h"
#include "Search/LeastMemory.h"
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

TEST(LeastMemory, FitsWhereASearchFindsAPlan) {
  Problem problem = transformer({8, 4096, 32, 2048, 32, 50304});
  Cluster on = cluster("p3");
  int fitting = 0, lacking = 0;
  for (int64_t devices : {1, 2, 4})
    for (const char *spec :
         {"auto", "offload=none", "zero=0,offload=none", "recompute=none", "tp=1,pp=1"}) {
      SearchOptions options = optionsOf(devices, spec);
      options.findClosest = options.adviseOtherwise = false;
      SearchOutcome found = search(problem, on, options);
      bool fits = found && found->predicted.fits();
      EXPECT_EQ(fitsWithLeastMemory(problem, on, options), fits) << devices << " " << spec;
      ++(fits ? fitting : lacking);
    }
  EXPECT_GT(fitting, 3);
  EXPECT_GT(lacking, 3);
}

// Where memory just suffices the search goes on after its first round, which finds nothing there.
TEST(LeastMemory, SearchFindsWhatBarelyFits) {
  Problem problem = transformer({4, 2048, 16, 1024, 16, 32000});
  SearchOptions options = optionsOf(2, "auto");
  options.findClosest = options.adviseOtherwise = false;
  Cluster on = cluster("p3");
  auto fitsIn = [&](double bytes) {
    on.device.memoryBytes = bytes;
    return fitsWithLeastMemory(problem, on, options);
  };
  double lacking = 1e8, enough = on.device.memoryBytes;
  ASSERT_TRUE(fitsIn(enough));
  ASSERT_FALSE(fitsIn(lacking));
  while (enough > 1.01 * lacking) {
    double middle = (lacking + enough) / 2;
    (fitsIn(middle) ? enough : lacking) = middle;
  }
  on.device.memoryBytes = enough;
  EXPECT_TRUE(search(problem, on, options)) << enough;
  on.device.memoryBytes = lacking / 1.2;
  EXPECT_FALSE(search(problem, on, options)) << lacking;
}
