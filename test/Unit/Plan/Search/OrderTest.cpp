// In which order axes lie on the devices: where that puts ranks, which orders are worth
// telling apart, and which one the search finds.
#include "Planner.h"
#include "Predict/UniformStages.h"
#include "RandomProblem.h"
#include "Search/Candidates.h"
#include "Search/Strategies.h"
#include "StageGroups.h"

#include "dtc/Plan/Cost/PipelineLinks.h"
#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Search/Orders.h"

#include <algorithm>
#include <cmath>
#include <set>

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
  Plan plan;
  plan.degrees = degrees;
  EXPECT_TRUE(unimplemented(plan).empty());
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
  SearchResult found = best(problem, 4, "dp=1,tp=1,pp=4,schedule=1f1b", on);
  ProblemFacts facts(found.problem);
  std::vector<Block> blocks = findBlocks(found.problem, facts);
  UniformStages kind({found.problem, facts, blocks, found.problem.numMicrobatches}, found.plan, on,
                     4, nullptr);
  ASSERT_TRUE(kind.start());
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
TEST(DistinctOrders, CountRanksAsTheNetworkPricesThem) {
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
            EXPECT_EQ(ranksBelow(on, degrees, stridesOf(degrees), axes), priced)
                << summary(degrees);
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

TEST(DistinctOrders, JoinOtherRanksBelowSwitches) {
  Degrees degrees = {.dp = 4, .tp = 4, .pp = 2};
  auto names = [&](const Cluster &on, bool near) {
    std::vector<std::string> result;
    for (const AxisOrder &each : distinctOrders(degrees, on, near))
      result.push_back(name(each));
    return result;
  };
  Cluster on = twoLevels(8, 100e9, 10e9);
  EXPECT_EQ(names(on, true),
            (std::vector<std::string>{"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-cp-ep-tp-pp",
                                      "dp-cp-ep-pp-tp"}));
  degrees = {.dp = 4, .tp = 8};
  EXPECT_EQ(names(on, true), (std::vector<std::string>{"tp-cp-ep-dp-pp", "dp-cp-ep-tp-pp"}));
  // Groups of 3 ranks don't fill nodes of 8.
  degrees = {.dp = 3, .tp = 4, .pp = 2};
  EXPECT_EQ(names(on, true), (std::vector<std::string>{"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}));
  on.levels.pop_back();
  EXPECT_EQ(names(on, true), (std::vector<std::string>{"tp-cp-ep-dp-pp"}));
  // Behind a node's 8 tp ranks it is all the same which leaf switch there is.
  degrees = {.dp = 64, .tp = 8, .pp = 4};
  EXPECT_EQ(names(cluster("dgx-h100"), true),
            (std::vector<std::string>{"tp-cp-ep-dp-pp", "dp-cp-ep-tp-pp", "pp-cp-ep-tp-dp",
                                      "pp-cp-ep-dp-tp"}));
  Cluster mixed = cluster("dgx-h100");
  mixed.nodes = 4;
  mixed.others = {{cluster("dgx-a100").device, 8, 4, {}}};
  degrees = {.dp = 8, .tp = 4, .pp = 2};
  EXPECT_EQ(names(mixed, true), (std::vector<std::string>{"tp-cp-ep-dp-pp"}));
}

TEST(DistinctOrders, NearIsFasterWhereInnerLinksAre) {
  for (const char *name : {"dgx-h100", "dgx-h200", "dgx-a100", "p4d", "p5", "a10g", "dgx-b200"})
    EXPECT_TRUE(nearIsFaster(CostModel(cluster(name), 1024), 1024)) << name;
  EXPECT_TRUE(nearIsFaster(CostModel(twoLevels(8, 100e9, 10e9), 64), 64));
  EXPECT_FALSE(nearIsFaster(CostModel(twoLevels(8, 10e9, 100e9), 64), 64));
}

/// Each order of each mesh, pinned: none beats the free choice by more than an
/// order has to, and none is below the floor of all orders.
TEST(Orders, NoneBeatsTheFreeChoice) {
  const std::string rest = "zero=1,recompute=none,micro_batch=1,schedule=1f1b,chunks=1";
  int others = 0, cases = 0, floors = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    Problem problem = randomProblem(seed, {3, 2, true});
    if (problem.values[0].type != DType::I64)
      continue; // no samples that could be split
    problem.numMicrobatches = 2;
    for (auto [inside, between] : {std::pair(1e11, 1e9), {1e9, 1e8}, {1e8, 1e10}}) {
      Cluster on = twoLevels(2, inside, between);
      const bool nearFaster = nearIsFaster(CostModel(on, 8), 8);
      EXPECT_EQ(nearFaster, inside > between);
      Planner planner(problem, on, 8);
      double least = std::numeric_limits<double>::infinity();
      std::string which;
      for (int64_t tp : {1, 2, 4, 8})
        for (int64_t pp : {1, 2, 4}) {
          Degrees degrees = {.dp = 8 / (tp * pp), .tp = tp, .pp = pp};
          if (tp * pp > 8)
            continue;
          for (const AxisOrder &each : distinctOrders(degrees, on, false)) {
            std::string spec = "dp=" + std::to_string(degrees.dp) + ",tp=" + std::to_string(tp) +
                               ",pp=" + std::to_string(pp) + ",cp=1,ep=1,order=" + name(each);
            auto ordered = found(problem, 8, spec + "," + rest, on);
            ASSERT_TRUE(ordered) << spec << ": " << ordered.error().message;
            EXPECT_EQ(ordered->plan.degrees.order, each);
            EXPECT_TRUE(verify(ordered->problem, ordered->plan, on).empty());
            std::string error;
            if (nearFaster) {
              EXPECT_LE(planner.estimator.lowerBoundOfOrders(ordered->plan.degrees, {}, error),
                        ordered->predicted.stepSeconds * (1 + 1e-9)) << spec;
              EXPECT_EQ(error, "") << spec;
              ++floors;
            }
            double perSample =
                ordered->predicted.stepSeconds / double(ordered->problem.globalBatch());
            if (perSample < least) {
              least = perSample;
              which = spec;
            }
          }
        }
      ASSERT_TRUE(std::isfinite(least)) << seed;
      SearchResult free = best(problem, 8, rest, on);
      double perSample = free.predicted.stepSeconds / double(free.problem.globalBatch());
      EXPECT_LE(perSample, least * 1.0006) << seed << ": " << summary(free.plan.degrees)
                                           << " instead of " << which;
      others += free.plan.degrees.order != kDefaultOrder;
      ++cases;
    }
  }
  EXPECT_EQ(cases, 3 * 3);
  EXPECT_GT(floors, 100);
  EXPECT_GT(others, 0) << "some other order is the best";
}

/// All orders of all meshes, be they worth telling apart or not.
TEST(Orders, NoneOfAllBeatsTheChoiceOnSeveralLevels) {
  Problem problem = transformer({8, 2048, 16, 2048, 48, 8192});
  auto levels = [](const std::vector<std::pair<int64_t, double>> &list) {
    Cluster on = twoLevels(list[0].first, 0, 0);
    on.levels.clear();
    for (auto [size, bandwidth] : list)
      on.levels.push_back({"level" + std::to_string(on.levels.size()), size, bandwidth, 5e-6});
    return on;
  };
  for (const auto &[on, devices] : {std::pair(levels({{2, 300e9}, {8, 50e9}, {0, 5e9}}), 16),
                                    {levels({{2, 300e9}, {4, 100e9}, {16, 25e9}, {0, 3e9}}), 32},
                                    {levels({{4, 20e9}, {8, 100e9}, {16, 10e9}, {0, 2e9}}), 32},
                                    {levels({{8, 300e9}, {0, 5e9}}), 12}}) {
    Planner planner(problem, on, devices);
    const SearchResult chosen = best(problem, devices, "zero=1,recompute=none,schedule=1f1b", on);
    planner.options.spec = *parseSpec("zero=1,recompute=none,schedule=1f1b");
    Candidates all = findCandidates(problem, planner.facts, planner.options.spec, planner.options,
                                    {8, 8, 1, {devices}});
    int tried = 0;
    for (Degrees degrees : all.list) {
      degrees.zero = 1;
      AxisOrder each = kDefaultOrder;
      std::set<Strides> placements;
      do {
        degrees.order = each;
        Strides strides = stridesOf(degrees);
        for (Axis axis : each) // of one rank: wherever it is
          if (degreeOf(degrees, axis) == 1)
            strides[static_cast<size_t>(axis)] = 0;
        if (!placements.insert(strides).second)
          continue;
        Estimate estimate;
        std::string error;
        ASSERT_EQ(planner.estimator.estimate(degrees, {}, {1e9}, estimate, error),
                  Estimator::Outcome::Found)
            << summary(degrees) << ": " << error;
        EXPECT_GE(estimate.seconds, 0.999 * chosen.predicted.stepSeconds)
            << summary(degrees) << " instead of " << summary(chosen.plan.degrees);
        ++tried;
      } while (std::next_permutation(each.begin(), each.end()));
    }
    EXPECT_GT(tried, 200);
  }
}

/// Activations of many long microbatches weigh more than the gradients of a small
/// model, which are summed once a step.
TEST(Orders, StagesLieInsideTheNodeWhereTheySendMost) {
  Problem problem = transformer({4, 512, 8, 4096, 256, 1024});
  const std::string rest = "dp=4,tp=1,pp=2,cp=1,ep=1,zero=0,micro_batch=1,schedule=1f1b";
  Cluster on = twoLevels(2, 100e9, 1e9);
  SearchResult found = best(problem, 8, rest, on),
               plain = best(problem, 8, rest + ",order=tp-cp-ep-dp-pp", on);
  EXPECT_EQ(name(found.plan.degrees.order), "tp-cp-ep-pp-dp");
  EXPECT_EQ(found.plan.stages[0].devices, (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(found.plan.stages[1].devices, (std::vector<int64_t>{1, 3, 5, 7}));
  EXPECT_LT(found.predicted.stepSeconds, 0.98 * plain.predicted.stepSeconds);
  SearchOptions options{.devices = 8, .spec = *parseSpec(rest), .executable = false};
  bool told = false;
  for (const Change &change : explain(problem, on, options, found).changes)
    if (change.setting == "order=tp-cp-ep-dp-pp" && change.rival) {
      EXPECT_GT(change.rival->difference.share, 0.02);
      told = true;
    }
  EXPECT_TRUE(told) << "what the default order would cost";
  // Fully pinned, the default.
  EXPECT_EQ(best(problem, 8, rest + ",recompute=none", on).plan.degrees.order, kDefaultOrder);
}

/// Of one mesh, which is told of, and then is among all that may be faster.
TEST(Orders, AreSearchedOnceForEachMesh) {
  Problem problem = transformer({4, 512, 8, 4096, 256, 1024});
  Cluster on = twoLevels(2, 100e9, 1e9);
  auto estimates = [&](const std::string &order) {
    SearchOptions options = optionsOf(8);
    SearchState searched(problem, on, options,
                        *parseSpec("dp=4,tp=1,pp=2,cp=1,ep=1,zero=0,micro_batch=1,schedule=1f1b" +
                                   order));
    EXPECT_TRUE(runStrategies(searched));
    return searched.estimates;
  };
  // One other order: what all have in common, and itself.
  EXPECT_EQ(estimates("") - estimates(",order=tp-cp-ep-dp-pp"), 2);
}

/// GPUs whose sockets share slow PCIe, each with a fast card of its own.
TEST(Orders, TensorParallelismAvoidsInnerLinksThatAreSlow) {
  Problem problem = transformer({4, 1024, 16, 1024, 16, 1024});
  Cluster on = twoLevels(2, 2e9, 50e9);
  SearchResult found = best(problem, 4, "dp=2,tp=2,zero=0", on);
  EXPECT_EQ(name(found.plan.degrees.order), "dp-cp-ep-tp-pp");
  EXPECT_LT(found.predicted.stepSeconds,
            0.9 * best(problem, 4, "dp=2,tp=2,zero=0,order=tp-cp-ep-dp-pp", on)
                      .predicted.stepSeconds);
  SearchOptions options = optionsOf(4, "dp=2,tp=2,zero=0");
  options.without = {SearchStrategy::Orders};
  auto leftOut = search(problem, on, options);
  ASSERT_TRUE(leftOut);
  EXPECT_EQ(leftOut->plan.degrees.order, kDefaultOrder);
}

TEST(Orders, TensorParallelismIsInTheNodeAndPipelinesAcross) {
  SearchResult found = best(transformer(gpt175b(512)), 512, "tp=8", cluster("dgx-h100"));
  EXPECT_TRUE(hasDefaultPlacement(found.plan.degrees)) << summary(found.plan.degrees);
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
    EXPECT_EQ(distinctOrders(groups, each, true), std::vector<AxisOrder>{kDefaultOrder});
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
  EXPECT_TRUE(unimplemented(found->plan).empty());
  EXPECT_TRUE(unimplemented(problem, options.spec).empty());
}

TEST(Orders, SearchesNoneForWhatIsCompiled) {
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
  EXPECT_TRUE(unimplemented(found->plan).empty());
}
