// Solvers that are kept for other prices of memory: what is built, and that plans stay the same.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Shard/SolverStore.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

constexpr double kPrices[] = {1e-18, 1e-12, 1e-10, 1e-9, 1e-12};

Degrees degreesOf(int64_t dp, int64_t tp) {
  Degrees degrees;
  degrees.dp = dp;
  degrees.tp = tp;
  return degrees;
}

/// Each price is answered as by a solver of its own, in whichever order they are asked.
TEST(SolverStore, BuildsOneNetworkForAllPricesOfMemory) {
  const Cluster on = cluster("dgx-h100");
  Problem problem = transformer({2, 1024, 16, 512, 8, 8192});
  ProblemFacts facts(problem);
  SolverStore store(on);
  const SolverStore::Task task{problem, facts, std::make_shared<const OpBundles>(problem, facts)};
  std::vector<Plan> plans;
  for (const Degrees &degrees : {degreesOf(1, 4), degreesOf(2, 2)})
    for (double price : kPrices) {
      SolverOptions options;
      options.secondsPerByte = price;
      auto kept = store.solve(task, degrees, options);
      auto own = ShardingSolver(problem, facts, on, degrees, options).solve();
      ASSERT_TRUE(kept && *kept && own);
      EXPECT_EQ((*kept)->plan, own->plan) << price;
      EXPECT_EQ((*kept)->seconds, own->seconds) << price;
      EXPECT_EQ((*kept)->gap, own->gap) << price;
      plans.push_back(own->plan);
    }
  EXPECT_EQ(store.networks(), 2);
  EXPECT_NE(plans[0], plans[3]) << "the price of memory decides nothing";
}

/// The same of a folded model.
TEST(SolverStore, KeepsSolversOfFoldedModels) {
  const Cluster on = cluster("dgx-h100");
  Problem problem = transformer({16, 1024, 16, 512, 16, 8192});
  ShardLibrary library(problem, on, optionsOf(8));
  ASSERT_TRUE(library.getFolding());
  for (double price : kPrices) {
    SolverOptions options;
    options.secondsPerByte = price;
    auto kept = library.solveFolded(16, degreesOf(2, 4), options);
    auto own = ShardLibrary(problem, on, optionsOf(8)).solveFolded(16, degreesOf(2, 4), options);
    ASSERT_TRUE(kept && *kept && own && *own);
    EXPECT_EQ((*kept)->plan, (*own)->plan) << price;
  }
  EXPECT_EQ(library.networks(), 1);
}

/// Shardings don't depend on what lies around a mesh, but plans say it.
TEST(SolverStore, GivesThePlanTheDegreesThatAreAsked) {
  const Cluster on = cluster("dgx-h100");
  Problem problem = transformer({2, 1024, 16, 512, 8, 8192});
  ProblemFacts facts(problem);
  SolverStore store(on);
  const SolverStore::Task task{problem, facts, std::make_shared<const OpBundles>(problem, facts)};
  for (int zero : {0, 1, 3}) {
    Degrees degrees = degreesOf(2, 2);
    degrees.zero = zero;
    auto kept = store.solve(task, degrees, {});
    ASSERT_TRUE(kept && *kept);
    EXPECT_EQ((*kept)->plan.degrees.zero, zero);
  }
  EXPECT_EQ(store.networks(), 1);
}

/// Whatever else shardings depend on gets a network of its own.
TEST(SolverStore, TellsConditionsApart) {
  const Cluster on = cluster("dgx-h100");
  Problem problem = transformer({2, 1024, 16, 512, 8, 8192});
  ProblemFacts facts(problem);
  SolverStore store(on);
  const SolverStore::Task task{problem, facts, std::make_shared<const OpBundles>(problem, facts)};
  const Degrees degrees = degreesOf(1, 4);
  std::vector<SolverOptions> all(5);
  all[1].sequenceParallel = true;
  all[2].devices = 16;
  all[3].numMicrobatches = 8;
  all[4].tableLimit = 64;
  int64_t asked = 0;
  for (const SolverOptions &options : all) {
    auto kept = store.solve(task, degrees, options);
    auto own = ShardingSolver(problem, facts, on, degrees, options).solve();
    ASSERT_TRUE(kept && *kept && own);
    EXPECT_EQ((*kept)->plan, own->plan);
    EXPECT_EQ((*kept)->seconds, own->seconds);
    EXPECT_EQ(store.networks(), ++asked);
  }
}

} // namespace
