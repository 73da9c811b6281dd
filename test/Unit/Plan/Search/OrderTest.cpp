// In which order axes lie on the devices: where that puts ranks, and what it costs.
#include "FoundStages.h"
#include "StageGroups.h"

#include "dtc/Plan/Cost/NetworkModel.h"
#include "dtc/Plan/Cost/PipelineLinks.h"
#include "dtc/Plan/Plan/Verify.h"

#include <algorithm>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using namespace dtc::sharding;

namespace {

AxisOrder order(const std::string &name) { return *orderFromName(name); }

/// Devices of one rate for all sizes, `size` of them below one switch, with so many
/// bytes/s inside and between.
Cluster twoLevels(int64_t size, double inside, double between) {
  Cluster on = cluster("dgx-h100");
  on.device.architecture = Architecture::None;
  on.device.multiprocessors = 0;
  on.device.achieved[DType::F32] = on.device.achieved[DType::BF16] = 1e14;
  on.devicesPerNode = size;
  on.levels = {{"inside", size, inside, 1e-6}, {"between", 0, between, 1e-6}};
  return on;
}

const Degrees example = {.dp = 2, .tp = 4, .pp = 2};

} // namespace

TEST(AxisOrder, NamesAreInnermostFirst) {
  EXPECT_EQ(name(kDefaultOrder), "tp-cp-ep-dp-pp");
  EXPECT_EQ(orderFromName("tp-cp-ep-dp-pp"), kDefaultOrder);
  EXPECT_EQ(name(order("pp-dp-ep-cp-tp")), "pp-dp-ep-cp-tp");
  for (const char *broken : {"", "tp", "tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-cp-ep-dp-xp",
                             "tp-cp-ep-dp-pp-", "tp,cp,ep,dp,pp"})
    EXPECT_FALSE(orderFromName(broken)) << broken;
}

TEST(AxisOrder, PlacesRanks) {
  Mesh mesh;
  mesh.axes = {{"dp", "dp", 2}, {"tp", "tp", 4}};
  Degrees degrees = example;
  EXPECT_EQ(devicesOf(degrees, mesh, 1), (std::vector<int64_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  degrees.order = order("tp-cp-ep-pp-dp");
  EXPECT_EQ(devicesOf(degrees, mesh, 0), (std::vector<int64_t>{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(devicesOf(degrees, mesh, 1), (std::vector<int64_t>{4, 5, 6, 7, 12, 13, 14, 15}));
  degrees.order = order("dp-cp-ep-pp-tp");
  EXPECT_EQ(devicesOf(degrees, mesh, 1), (std::vector<int64_t>{2, 6, 10, 14, 3, 7, 11, 15}));
  // Of a degree with two axes the last is the innermost.
  mesh.axes = {{"dp", "dp", 2}, {"tp.0", "tp", 2}, {"tp.1", "tp", 2}};
  EXPECT_EQ(devicesOf(degrees, mesh, 1), (std::vector<int64_t>{2, 6, 10, 14, 3, 7, 11, 15}));
}

TEST(AxisOrder, OfAxesWithOneRankIsTheDefault) {
  Degrees degrees = {.dp = 2, .tp = 4};
  degrees.order = order("pp-tp-ep-cp-dp");
  EXPECT_TRUE(hasDefaultPlacement(degrees));
  degrees.order = order("dp-tp-cp-ep-pp");
  EXPECT_FALSE(hasDefaultPlacement(degrees));
}

TEST(AxisOrder, SaysWhichLinksAGroupUses) {
  Mesh mesh;
  mesh.axes = {{"dp", "dp", 4}, {"tp", "tp", 4}};
  CostModel model(twoLevels(8, 100e9, 10e9), 32);
  auto inNode = [&](const std::string &text, AxisId axis) {
    Degrees degrees = {.dp = 4, .tp = 4, .pp = 2};
    degrees.order = order(text);
    setStrides(mesh, stridesOf(degrees));
    return model.groupShape({axis}, mesh).inside[0];
  };
  EXPECT_EQ(inNode("tp-cp-ep-dp-pp", 0), 2);
  EXPECT_EQ(inNode("tp-cp-ep-dp-pp", 1), 4);
  EXPECT_EQ(inNode("tp-cp-ep-pp-dp", 0), 1);
  EXPECT_EQ(inNode("dp-cp-ep-tp-pp", 0), 4);
  EXPECT_EQ(inNode("dp-cp-ep-tp-pp", 1), 2);
  EXPECT_EQ(inNode("dp-cp-ep-pp-tp", 1), 1);
}

/// Of stages that straddle nodes, some ranks send to another node.
TEST(AxisOrder, StagesSendOverTheirFarthestLink) {
  Cluster on = twoLevels(8, 100e9, 10e9);
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(farthestPair({.dp = 4, .pp = 4}, on, 0, 1), Pair(0, 4));
  EXPECT_EQ(farthestPair({.dp = 4, .pp = 4}, on, 1, 2), Pair(4, 8));
  EXPECT_EQ(farthestPair({.dp = 6, .pp = 2}, on, 0, 1), Pair(2, 8));
  EXPECT_EQ(farthestPair({.dp = 3, .tp = 2, .pp = 2}, on, 1, 0), Pair(8, 2));
  Degrees inside = {.dp = 2, .pp = 6};
  inside.order = order("tp-cp-ep-pp-dp"); // 0 to 5 and 6 to 11
  EXPECT_EQ(farthestPair(inside, on, 0, 1), Pair(0, 1));
  EXPECT_EQ(farthestPair(inside, on, 1, 2), Pair(7, 8));
  // What is sent takes as long as that link says.
  Problem problem = transformer({4, 1024, 16, 1024, 24, 1024});
  double seconds[2];
  for (bool isSlow : {false, true}) {
    on.levels[1].bandwidth = isSlow ? 1e8 : 1e10;
    SearchResult found = best(problem, 12, "dp=6,tp=1,pp=2,zero=0,micro_batch=1,schedule=1f1b", on);
    seconds[isSlow] = 0;
    for (const CollectiveUse &use : found.predicted.collectives)
      if (use.send)
        seconds[isSlow] += use.seconds;
  }
  EXPECT_GT(seconds[1], 50 * seconds[0]);
}

/// The first stage embeds with the weights that the third one, before the loss, has as its head.
TEST(AxisOrder, TiedWeightsAreSummedBetweenTheStagesThatHoldThem) {
  Cluster on = twoLevels(2, 100e9, 1e9);
  const Problem problem = load("gpt");
  const FoundStages of(best(problem, 4, "dp=1,tp=1,pp=4,schedule=1f1b", on), on);
  const SearchResult &found = of.found;
  const UniformStages &kind = of.stages;
  const StageCosts &costs = kind.costs();
  const StageCosts::Runs &stages = kind.getStages();
  const auto placement = placementOf(found.plan.degrees);
  dtc::simulate::Costs simulated = costs.costs(stages, placement);
  for (int64_t rank = 0; rank < 4; ++rank) {
    std::vector<StageCosts::Tied> tied = costs.tied(stages, placement, rank);
    bool holds = rank == 0 || rank == 2;
    ASSERT_EQ(tied.size(), holds ? 1u : 0u);
    double seconds = costs.tiedSeconds(stages, placement, rank);
    if (holds) {
      EXPECT_EQ(std::pair(tied[0].first, tied[0].last), std::pair(int64_t{0}, int64_t{2}));
      EXPECT_EQ(seconds, 2 * kind.getModel().p2pSeconds(tied[0].bytes, 0, 2));
      EXPECT_GT(seconds, 10 * 2 * kind.getModel().p2pSeconds(tied[0].bytes, 0, 1));
    }
    EXPECT_NEAR(simulated.ranks[rank].update.blocking,
                costs.rank(runsOf(stages, placement, rank)).update.blocking + seconds, 1e-12);
  }
  // The search reckons with what is predicted.
  Planner planner(found.problem, on, 4);
  Estimate estimate;
  auto whole = planner.carriedOut(found.plan.degrees, estimate);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
              0.01 * whole->predicted.stepSeconds);
}

/// Nodes of 6 devices tear groups apart that lie at 4 to 7.
TEST(Orders, CountRanksAsTheNetworkPricesThem) {
  Cluster on = twoLevels(6, 100e9, 10e9);
  const std::vector<Axis> axes = {Axis::TP, Axis::CP, Axis::EP};
  int torn = 0;
  for (int64_t tp : {1, 2, 3, 4, 6})
    for (int64_t cp : {1, 2, 3})
      for (int64_t dp : {1, 2, 3})
        for (int64_t ep : {1, 2}) {
          Degrees degrees = {.dp = dp, .tp = tp, .cp = cp, .ep = ep};
          Mesh plain; // with an axis of one rank, wherever that lies
          for (Axis axis : {Axis::EP, Axis::CP, Axis::TP})
            plain.axes.push_back({name(axis), name(axis), degreeOf(degrees, axis)});
          do {
            Mesh mesh = plain;
            setStrides(mesh, stridesOf(degrees));
            std::vector<int64_t> priced;
            for (Axis axis : axes)
              if (degreeOf(degrees, axis) > 1)
                priced.push_back(CostModel(on, degrees.devices())
                                     .groupShape(mesh.ofDegree(name(axis)), mesh)
                                     .inside[0]);
            EXPECT_EQ(ranksBelow(on, degrees, axes), priced) << summary(degrees);
            torn += tp == 4 && !priced.empty() && priced[0] == 2;
          } while (std::next_permutation(degrees.order.begin(), degrees.order.end()));
        }
  EXPECT_GT(torn, 0);
  // Shardings are solved for each that differ.
  Problem problem = transformer({2, 4096, 8, 512, 24, 1024});
  ShardLibrary library(problem, on, optionsOf(12));
  Degrees degrees = {.dp = 2, .tp = 2, .cp = 2};
  std::string error;
  const std::vector<OpId> cuts = {0, ProblemFacts(problem).lastForward + 1};
  auto solved = [&](const char *text) {
    degrees.order = order(text);
    return library.get(degrees, {}, cuts, error);
  };
  const ShardCosts *joined = solved("tp-dp-cp-ep-pp"), *apart = solved("dp-tp-cp-ep-pp");
  ASSERT_TRUE(joined && apart) << error;
  EXPECT_NE(joined, apart);
  EXPECT_LT(joined->unitCosts(Recompute::None, cuts).seconds(0, 1).forward,
            apart->unitCosts(Recompute::None, cuts).seconds(0, 1).forward);
}

/// Stages that differ are priced and verified side by side on the devices.
TEST(Orders, OnlyTheDefaultWhereStagesDiffer) {
  const std::string message =
      "on several device types, and with stages that have meshes of their own, axes have the "
      "default order alone: order=dp-tp-cp-ep-pp";
  Problem problem = transformer({4, 512, 8, 512, 32, 8192});
  Cluster on = mixed(1, 1), alike = twoLevels(4, 100e9, 10e9);
  auto refused = found(problem, 8, "dp=2,tp=2,pp=2,order=dp-tp-cp-ep-pp", on);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "no plan for 8 devices: " + message);
  // The same placement by another name, and what of an open SPEC has it.
  for (const char *spec : {"dp=4,tp=1,pp=2,order=cp-dp-tp-ep-pp", "order=dp-tp-cp-ep-pp"}) {
    SearchResult kept = best(problem, 8, spec, on);
    EXPECT_TRUE(hasDefaultPlacement(kept.plan.degrees)) << summary(kept.plan.degrees);
    EXPECT_EQ(kept.plan.degrees.order, *parseSpec(spec)->order);
  }
  Degrees groups = grouped({{1, 2, 2, false, 2}, {1, 4, 1, false, 1}}, 32);
  groups.order = order("dp-tp-cp-ep-pp");
  for (const Cluster &each : {on, alike}) {
    SearchOptions options = optionsOf(8);
    options.spec = pinned(groups, {});
    auto result = search(problem, each, options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "no plan for 8 devices: " + message);
    Degrees plain = groups;
    plain.order = kDefaultOrder;
    auto [plan, planned] = Planner(problem, each, 8).planOf(plain);
    plan.degrees.order = groups.order;
    ASSERT_FALSE(verify(planned, plan, each).empty());
    EXPECT_EQ(verify(planned, plan, each)[0].message, message);
    // Of both groups the axes count: here the first has no dp.
    plan.degrees.groups[0] = {1, 1, 4, false, 4};
    plan.degrees.groups[1] = {1, 2, 2, false, 2};
    EXPECT_FALSE(hasDefaultPlacement(plan.degrees));
  }
}

/// A SPEC's order is judged as its plan's is: by where it puts ranks.
TEST(Orders, OfAxesWithOneRankAreCompiled) {
  Problem problem = transformer({4, 1024, 16, 1024, 16, 1024});
  SearchOptions options{.devices = 4, .spec = *parseSpec("dp=2,tp=2,order=pp-tp-ep-cp-dp")};
  auto found = search(problem, cluster("dgx-h100"), options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(name(found->plan.degrees.order), "pp-tp-ep-cp-dp");
}

TEST(Orders, AreTheDefaultUnlessPinned) {
  Problem problem = transformer({4, 1024, 16, 1024, 16, 1024});
  Cluster on = twoLevels(2, 2e9, 50e9);
  SearchOptions options{.devices = 4, .spec = *parseSpec("dp=2,tp=2,zero=0")};
  auto found = search(problem, on, options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->plan.degrees.order, kDefaultOrder);
  options.spec.order = order("dp-cp-ep-tp-pp");
  found = search(problem, on, options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->plan.degrees.order, options.spec.order);
}
