// Whether any plan fits is known without searching for the best one.
#include "Search/LeastMemory.h"
#include "Planner.h"
#include "Search/Strategies.h"
#include "StageGroups.h"
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
      EXPECT_EQ(LeastMemory(problem, on).fits(options), fits) << devices << " " << spec;
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
    return LeastMemory(problem, on).fits(options);
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

/// The SPEC of a search with nothing pinned.
static Spec openSpec(const SearchOptions &options) {
  return *fill(withFixed(options.abilities, options.spec), options.devices);
}

// Where nothing fits, an answer is due in seconds for any model and number of devices. Work is
// counted in estimates; solving a sharding counts as ten.
TEST(LeastMemory, AnswersThatNothingFitsTakeLittleWork) {
  Problem problem = transformer({126, 16384, 128, 8192, 16384, 128256});
  Cluster on = cluster("dgx-h100");
  struct Case {
    double gigabytes;
    int64_t devices, asking, searching; ///< the most effort
  };
  for (const Case &each :
       {Case{10, 64, 0, 2000}, Case{3, 512, 0, 2400}, Case{10, 512, 2500, 11000}}) {
    on.device.memoryBytes = each.gigabytes * 1e9;
    SearchOptions options = optionsOf(each.devices);
    LeastMemory asked(problem, on);
    EXPECT_FALSE(asked.fits(options)) << each.devices;
    EXPECT_LE(asked.effort(), each.asking) << each.devices;
    SearchState searched(problem, on, options, openSpec(options));
    EXPECT_FALSE(runStrategies(searched)) << each.devices;
    EXPECT_LE(searched.effort(), each.searching) << each.devices;
  }
}

// Stages of two types of devices may have meshes of their own, which are ten times as many
// candidates. Each is looked at with its smallest microbatch, and with the sharding that holds
// least.
TEST(LeastMemory, AnswersForTwoTypesOfDevicesTakeLittleWork) {
  Problem problem = transformer({16, 4096, 32, 4096, 128, 32000});
  Cluster on = mixed(4, 4);
  on.device.memoryBytes = 6e8;
  on.others[0].device.memoryBytes = 5e8;
  SearchOptions options = optionsOf(32);
  SearchState searched(problem, on, options, openSpec(options));
  ASSERT_GT(listCandidates(searched).size(), 700u);
  EXPECT_FALSE(runStrategies(searched));
  EXPECT_LE(searched.effort(), 1700);
}
