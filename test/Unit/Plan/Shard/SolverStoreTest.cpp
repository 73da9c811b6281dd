// Solvers that are kept for other prices of memory: what is built, and that plans stay the same.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Shard/SolverStore.h"

#include <thread>

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

/// Threads that ask the same solver at once get what they would get alone.
TEST(SolverStore, AnswersSeveralThreads) {
  const Cluster on = cluster("dgx-h100");
  Problem problem = transformer({2, 1024, 16, 512, 8, 8192});
  ProblemFacts facts(problem);
  SolverStore store(on);
  const SolverStore::Task task{problem, facts, std::make_shared<const OpBundles>(problem, facts)};
  constexpr size_t kQuestions = 24;
  std::vector<Plan> alone, together(kQuestions);
  auto ask = [&](size_t i, SolverStore &of) {
    SolverOptions options;
    options.secondsPerByte = kPrices[i % std::size(kPrices)];
    auto found = of.solve(task, i % 2 ? degreesOf(1, 4) : degreesOf(2, 2), options);
    return found && *found ? (*found)->plan : Plan{};
  };
  for (size_t i = 0; i < kQuestions; ++i) {
    SolverStore own(on);
    alone.push_back(ask(i, own));
  }
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first)
    threads.emplace_back([&, first] {
      for (size_t i = first; i < kQuestions; i += 4)
        together[i] = ask((i + 6 * first) % kQuestions, store);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < kQuestions; ++i)
    EXPECT_EQ(together[i], alone[(i + 6 * (i % 4)) % kQuestions]) << i;
  EXPECT_EQ(store.networks(), 2);
}

/// The one that was not asked for longest is forgotten, and built again.
TEST(SolverStore, ForgetsSolvers) {
  const Cluster on = cluster("dgx-h100");
  Problem problem = transformer({1, 64, 4, 32, 8, 128});
  ProblemFacts facts(problem);
  SolverStore store(on);
  const SolverStore::Task task{problem, facts, std::make_shared<const OpBundles>(problem, facts)};
  auto ask = [&](int64_t microbatches) {
    SolverOptions options;
    options.numMicrobatches = microbatches;
    auto found = store.solve(task, degreesOf(1, 2), options);
    EXPECT_TRUE(found && *found);
    return store.networks();
  };
  for (int64_t i = 1; i <= 32; ++i)
    EXPECT_EQ(ask(i), i);
  EXPECT_EQ(ask(1), 32);
  EXPECT_EQ(ask(33), 33);
  EXPECT_EQ(ask(1), 33);
  EXPECT_EQ(ask(2), 34) << "it was asked before all others";
}

} // namespace
