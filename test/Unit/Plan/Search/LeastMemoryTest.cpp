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
