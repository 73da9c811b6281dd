// What cuts ask of stages, with limits and without.
#include "FoundStages.h"
#include "Transformer.h"

#include "dtc/Plan/Predict/Recomputation.h"
#include "dtc/Plan/Search/StagePrices.h"

#include <limits>

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// A stage beyond the limit may be said to take less than it does, but never less than the limit.
/// Else the price is the whole one.
TEST(StagePrices, AreWholeUpToTheLimitAndAboveItBeyond) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  Cluster on = cluster("dgx-h100");
  int shortened = 0;
  for (const char *spec : {"dp=1,tp=1,pp=4,schedule=1f1b", "dp=2,tp=1,pp=2,zero=3,schedule=zb",
                           "dp=1,tp=2,pp=2,recompute=full", "dp=2,tp=1,pp=2,offload=optimizer"}) {
    FoundStages of(best(transformer({6, 512, 8, 128, 16, 1024}), 4, spec, on), on);
    const Problem &problem = of.found.problem;
    const Plan &plan = of.found.plan;
    std::vector<OpId> cuts = {0};
    for (const Block &block : of.blocks)
      cuts.push_back(block.first);
    cuts.push_back(of.facts.lastForward + 1);
    CostModel model(on, 4);
    RankExecution execution(problem, of.facts, plan, model);
    UnitCosts units(problem, of.facts, execution, plan.mesh, cuts, of.blocks);
    StageCosts costs(model, plan.degrees, plan.mesh, units,
                     findWeights(problem, of.facts, plan, execution, units, on.software), of.blocks,
                     scalarSums(problem, plan.mesh));
    for (int a = 0; a < units.units(); ++a)
      for (int b = a + 1; b <= units.units(); ++b) {
        auto ask = [&](double limit) {
          return StagePrices(costs, plan.degrees, units, of.blocks, nullptr)
              .seconds(a, b, {1, false}, kAny, limit);
        };
        const double whole = ask(kAny);
        for (double share : {0.1, 0.5, 0.9, 0.999, 1.0, 1.5})
          if (double limit = share * whole, said = ask(limit); whole <= limit)
            EXPECT_EQ(said, whole) << spec << " " << a << " " << b;
          else {
            EXPECT_GT(said, limit) << spec << " " << a << " " << b;
            EXPECT_LE(said, whole) << spec << " " << a << " " << b;
            shortened += said < whole;
          }
      }
  }
  EXPECT_GT(shortened, 100);
}

/// A stage may end within a block. What it has of it is computed again, too, once whole blocks
/// before it aren't enough.
TEST(StagePrices, RecomputePartsOfBlocks) {
  Cluster on = cluster("dgx-h100");
  FoundStages of(best(transformer({6, 512, 8, 128, 16, 1024}), 2, "dp=1,tp=1,pp=2", on), on);
  const Problem &problem = of.found.problem;
  std::vector<OpId> cuts = {0};
  for (const Block &block : of.blocks)
    for (OpId cut : {block.first, (block.first + block.last) / 2})
      cuts.push_back(cut);
  cuts.push_back(of.blocks.back().last + 1);
  cuts.push_back(of.facts.lastForward + 1);
  CostModel model(on, 2);
  auto execution = [&](Recompute kind) {
    RankExecution result(problem, of.facts, of.found.plan, model);
    addRecomputation(result, problem, of.blocks, recomputeAll(of.blocks, kind), on.software);
    return result;
  };
  const RankExecution plain = execution(Recompute::None);
  const dtc::sharding::Mesh &mesh = of.found.plan.mesh;
  UnitCosts units(problem, of.facts, plain, mesh, cuts, of.blocks);
  UnitCosts again(problem, of.facts, execution(Recompute::Full), mesh, cuts, of.blocks);
  StageCosts costs(model, of.found.plan.degrees, mesh, units,
                   findWeights(problem, of.facts, of.found.plan, plain, units, on.software),
                   of.blocks, scalarSums(problem, mesh));
  StagePrices prices(costs, of.found.plan.degrees, units, of.blocks, &again);
  const int first = units.unitOf(of.blocks[1].first), end = first + 3; // one block and a half
  EXPECT_EQ(prices.blockEnds(first, end), (std::vector<int>{first + 2, end}));
  EXPECT_EQ(prices.blockEnds(first, first + 2), std::vector<int>{first + 2});
  EXPECT_EQ(prices.blockEnds(first, first + 1), std::vector<int>{first + 1});
  EXPECT_TRUE(prices.isWithinBlock(end));
  EXPECT_FALSE(prices.isWithinBlock(first));
  EXPECT_FALSE(prices.isWithinBlock(units.units()));
  const StagePrices::InFlight held{8, false};
  auto bytes = [&](int kept) {
    StageRun run(first, end);
    run.kept = kept;
    return costs.rank({run}).staticBytes + costs.transientBytes(run) +
           double(costs.heldBytes(run, held));
  };
  ASSERT_LT(bytes(end), 0.9 * bytes(first + 2));
  auto keptWithin = [&](double budget) { return prices(first, end, held, budget)->run.kept; };
  EXPECT_EQ(keptWithin(1.1 * bytes(first)), first);
  EXPECT_EQ(keptWithin(1.05 * bytes(first + 2)), first + 2);
  EXPECT_EQ(keptWithin(1.05 * bytes(end)), end);
}
