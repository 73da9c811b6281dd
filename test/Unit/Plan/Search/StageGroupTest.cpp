// Pipelines whose stages have meshes of their own.
#include "Planner.h"
#include "Predict/UniformStages.h"
#include "Search/Candidates.h"
#include "StageGroups.h"

#include "dtc/Plan/Plan/Verify.h"
#include "dtc/Plan/Predict/StageDevices.h"

#include <set>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

const TransformerSize kSmall{12, 2048, 16, 1024, 32, 8192};

/// What the plan sends from stage to stage, by bytes of a call.
std::set<int64_t> sentBytes(const Prediction &predicted) {
  std::set<int64_t> bytes;
  for (const CollectiveUse &use : predicted.collectives)
    if (use.send)
      bytes.insert(use.bytes);
  return bytes;
}

} // namespace

TEST(StageGroups, AreDevicesAndTextsOfTheirOwn) {
  Degrees degrees = grouped({{1, 2, 8, false, 4}, {2, 4, 1, false, 2}}, 32);
  EXPECT_EQ(degrees.devices(), 24);
  EXPECT_EQ(degrees.samples(), 32);
  EXPECT_EQ(groupOf(degrees, 0), 0u);
  EXPECT_EQ(groupOf(degrees, 1), 1u);
  EXPECT_EQ(groupOf(degrees, 2), 1u);
  EXPECT_EQ(inGroup(degrees, 1).dp, 4);
  EXPECT_EQ(inGroup(degrees, 1).pp, 3);
  EXPECT_TRUE(inGroup(degrees, 1).groups.empty());
  EXPECT_EQ(inGroup(degrees, 0).samples(), inGroup(degrees, 1).samples());
  EXPECT_TRUE(summary(degrees).starts_with("dp=2|4 tp=8|1 pp=3(1|2) cp=1 ep=1 sp=off|off zero=0"))
      << summary(degrees);
  EXPECT_NE(summary(degrees).find("micro_batch=4|2"), std::string::npos);
}

/// Stages that happen to have the same mesh cost what they do without groups.
TEST(StageGroups, OfEqualMeshesAreNoGroups) {
  Problem problem = transformer(kSmall);
  Cluster on = cluster("dgx-h100");
  for (int zero : {0, 1, 3}) {
    Planner planner(problem, on, 8);
    Degrees degrees = grouped({{1, 2, 2, false, 2}, {1, 2, 2, false, 2}}, 32, zero);
    auto [plan, planned] = planner.planOf(degrees);
    ASSERT_EQ(plan.others.size(), 1u);
    Plan plain = inGroup(plan, 0);
    EXPECT_TRUE(verify(planned, plan, on).empty());
    EXPECT_TRUE(verify(planned, plain, on).empty());
    Prediction with = predict(planned, plan, on), without = predict(planned, plain, on);
    EXPECT_NEAR(with.stepSeconds, without.stepSeconds, 1e-9 * without.stepSeconds) << zero;
    EXPECT_EQ(with.memory, without.memory) << zero;
    EXPECT_EQ(sentBytes(with), sentBytes(without)) << zero;
    ASSERT_EQ(with.stages.size(), 2u);
    for (size_t stage = 0; stage < 2; ++stage)
      EXPECT_EQ(with.stages[stage].memory, without.stages[stage].memory) << zero;
  }
}

TEST(StageGroups, SendWhatTheOtherMeshNeeds) {
  Problem problem = transformer(kSmall);
  Cluster on = cluster("dgx-h100");
  constexpr double sample = 1024 * 2048 * 2; // bytes of the residual stream
  struct Case {
    StageGroup first, second;
    double forward, backward; ///< samples of the devices that send or receive most
  };
  for (const Case &each : {Case{{1, 4, 1, false, 2}, {1, 4, 1, false, 2}, 2, 2},
                           // Two devices at a time need the same 4 samples.
                           {{1, 4, 1, false, 2}, {1, 2, 2, false, 4}, 4, 2},
                           {{1, 2, 2, false, 4}, {1, 4, 1, false, 2}, 2, 4},
                           // What 8 devices send 4 receive: fewer have more to do.
                           {{1, 8, 1, false, 1}, {1, 4, 1, false, 2}, 2, 2},
                           {{1, 4, 1, false, 2}, {1, 8, 1, false, 1}, 2, 2},
                           // Each of 2 sends its samples to two of 4.
                           {{1, 2, 1, false, 4}, {1, 2, 2, false, 4}, 8, 4}}) {
    Degrees degrees = grouped({each.first, each.second}, 32);
    Planner planner(problem, on, degrees.devices());
    auto [plan, planned] = planner.planOf(degrees);
    for (const Violation &violation : verify(planned, plan, on))
      ADD_FAILURE() << summary(degrees) << ": " << violation.message;
    ProblemFacts facts(planned);
    std::vector<Block> blocks = findBlocks(planned, facts);
    PlannedModel model{planned, facts, blocks, planned.numMicrobatches};
    Plan first = inGroup(plan, 0), second = inGroup(plan, 1);
    UniformStages from(model, first, on, degrees.devices(), nullptr);
    UniformStages to(model, second, on, degrees.devices(), nullptr);
    ASSERT_TRUE(from.start() && to.start());
    MixedStages both(on, {&from.costs(), &to.costs()}, neighbouringDevices(degrees));
    dtc::simulate::Costs costs = both.costs(from.getStages(), placementOf(degrees));
    ASSERT_EQ(costs.boundaries.size(), 1u);
    EXPECT_EQ(costs.boundaries[0].forwardBytes, each.forward * sample) << summary(degrees);
    EXPECT_EQ(costs.boundaries[0].backwardBytes, each.backward * sample) << summary(degrees);
  }
}

/// A slower link between the stages is paid for, whichever end has it.
TEST(StageGroups, PayTheSlowerEndsLink) {
  Problem problem = transformer(kSmall);
  Degrees degrees = grouped({{1, 2, 2, false, 2}, {1, 4, 1, false, 1}}, 32);
  Cluster fast = mixed(1, 1), slow = fast;
  slow.levels.back().bandwidth /= 100;
  double seconds[2];
  for (bool isSlow : {false, true}) {
    Planner planner(problem, isSlow ? slow : fast, 8);
    auto [plan, planned] = planner.planOf(degrees);
    Prediction predicted = predict(planned, plan, isSlow ? slow : fast);
    seconds[isSlow] = 0;
    for (const CollectiveUse &use : predicted.collectives)
      if (use.send)
        seconds[isSlow] += use.seconds;
  }
  EXPECT_GT(seconds[1], 30 * seconds[0]);
}

TEST(StageGroups, AgreeWithTheEstimate) {
  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  Cluster on = mixed(2, 1);
  int found = 0;
  for (const auto &groups : std::vector<std::vector<StageGroup>>{
           {{1, 8, 1, false, 1}, {1, 4, 1, false, 2}},
           {{2, 2, 2, false, 2}, {1, 4, 1, false, 1}},
           {{1, 2, 4, false, 4}, {1, 4, 1, false, 2}},
           {{2, 4, 1, false, 2}, {2, 1, 2, false, 8}}})
    for (int zero : {0, 1, 2, 3})
      for (auto schedule : {ScheduleKind::OneFOneB, ScheduleKind::ZeroBubble}) {
        Planner planner(problem, on, 12);
        Degrees degrees = grouped(groups, 64, zero);
        degrees.schedule = schedule;
        std::string error, text = summary(degrees);
        Estimate estimate;
        auto whole = planner.carriedOut(degrees, estimate);
        ASSERT_TRUE(whole) << text << ": " << whole.error().message;
        EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
                    0.02 * whole->predicted.stepSeconds) << text;
        // Of the rank that tensors fill most.
        double filled = 0;
        for (const StagePrediction &stage : whole->predicted.stages) {
          double rest = double(stage.memory.reserved + stage.memory.data);
          filled = std::max(filled,
                            (double(stage.memory.total()) - rest) / (stage.memoryCapacity - rest));
        }
        EXPECT_NEAR(estimate.memory / estimate.capacity, filled, 0.05 * filled + 0.005) << text;
        EXPECT_LE(planner.estimator.lowerBound(degrees, {}, error),
                  whole->predicted.stepSeconds) << text;
        Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
        ASSERT_TRUE(planned) << text << ": " << planned.error().message;
        for (const Violation &violation : verify(*planned, whole->plan, on))
          ADD_FAILURE() << text << ": " << violation.message;
        ++found;
      }
  EXPECT_EQ(found, 32);
}

TEST(StageGroups, SplitExpertsAlikeInAllGroups) {
  Problem problem = load("moe");
  Cluster on = mixed(2, 1);
  Planner planner(problem, on, on.devices());
  Candidates all = findCandidates(problem, planner.facts, {}, planner.options,
                                  {int64_t(planner.shardings.getBlocks().size()), 8, 16,
                                   alikeDevices(on, on.devices())});
  std::erase_if(all.list, [](const Degrees &degrees) {
    return degrees.groups.empty() || degrees.ep == 1 || degrees.chunks > 1;
  });
  ASSERT_GT(all.list.size(), 50u);
  for (size_t i = 0; i < all.list.size(); i += 25)
    for (int zero : {0, 3}) {
      Degrees degrees = all.list[i];
      degrees.zero = zero;
      Estimate estimate;
      auto whole = planner.carriedOut(degrees, estimate);
      ASSERT_TRUE(whole) << summary(degrees) << ": " << whole.error().message;
      EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
                  0.02 * whole->predicted.stepSeconds) << summary(degrees);
      Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
      ASSERT_TRUE(planned);
      for (const Violation &violation : verify(*planned, whole->plan, on))
        ADD_FAILURE() << summary(degrees) << ": " << violation.message;
    }
}

/// Groups of 4 ranks share what 8 do, and all of those where there are no more.
TEST(StageGroups, ShareStorageInPartsOfTheirDataParallelRanks) {
  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  Cluster on = mixed(2, 1);
  for (const auto &groups :
       std::vector<std::vector<StageGroup>>{{{1, 8, 1, false, 1}, {1, 4, 1, false, 2}},
                                            {{2, 1, 4, false, 8}, {2, 2, 1, false, 4}}}) {
    Planner planner(problem, on, 12);
    Degrees degrees = grouped(groups, 64, 3);
    degrees.zeroGroup = groups[0].dp > 1 ? 4 : 1;
    const std::string text = summary(degrees);
    Estimate estimate;
    auto whole = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(whole) << text << ": " << whole.error().message;
    EXPECT_EQ(whole->plan.degrees.zeroGroup, degrees.zeroGroup);
    EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
                0.02 * whole->predicted.stepSeconds) << text;
    Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
    ASSERT_TRUE(planned);
    for (const Violation &violation : verify(*planned, whole->plan, on))
      ADD_FAILURE() << text << ": " << violation.message;
    for (size_t group = 0; group < 2; ++group) {
      const ModelSharding &sharding = shardingOf(whole->plan, group);
      int64_t shared = sharding.mesh.size(sharding.storage[0].storageAxes);
      EXPECT_EQ(shared, std::min(groups[group].dp, degrees.zeroGroup)) << text;
    }
    auto again = planFromYaml(toYaml(whole->plan, *planned), "plan.yaml", *planned);
    ASSERT_TRUE(again) << again.error().message;
    // As files have meshes, whose strides follow from the order.
    EXPECT_EQ(toYaml(*again, *planned), toYaml(whole->plan, *planned));
    EXPECT_TRUE(verify(*planned, *again, on).empty());
    EXPECT_EQ(predict(*planned, *again, on), predict(*planned, whole->plan, on));
    // Which is more than all of them hold, each.
    degrees.zeroGroup = 0;
    auto shared = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(shared);
    size_t larger = groups[0].dp > 1 ? 0 : 2;
    EXPECT_GT(whole->predicted.stages[larger].memory.parameters,
              1.5 * double(shared->predicted.stages[larger].memory.parameters)) << text;
  }
}

TEST(StageGroups, SearchHybridShardingAndContextParallelism) {
  Cluster slow = mixed(4, 1);
  slow.levels.back().bandwidth = 2e9;
  Problem problem = transformer({8, 4096, 32, 1024, 64, 32768});
  auto allFound = [&](const char *spec) {
    SearchResult result = best(problem, slow.devices(), spec, slow);
    std::vector<Degrees> all = {result.plan.degrees};
    for (const Alternative &other : result.alternatives)
      all.push_back(other.degrees);
    return all;
  };
  auto count = [](const std::vector<Degrees> &list, auto holds) {
    return std::count_if(list.begin(), list.end(), [&](const Degrees &degrees) {
      return !degrees.groups.empty() && holds(degrees);
    });
  };
  EXPECT_GT(count(allFound("zero=3,pp=2,recompute=none"),
                  [](const Degrees &degrees) { return degrees.zeroGroup > 0; }), 0);
  std::vector<Degrees> pinned = allFound("zero=3,pp=2,zero_group=4");
  EXPECT_EQ(count(pinned, [](const Degrees &degrees) { return degrees.zeroGroup == 4; }),
            int64_t(pinned.size()));
  // No ranks that 3 doesn't divide, unless they are fewer.
  std::vector<Degrees> fewer = allFound("zero=3,pp=2,zero_group=3");
  EXPECT_EQ(count(fewer, [](const Degrees &degrees) {
              return std::all_of(degrees.groups.begin(), degrees.groups.end(),
                                 [](const StageGroup &group) { return group.dp <= 3; });
            }), int64_t(fewer.size()));
  Problem longer = transformer({4, 2048, 16, 16384, 2, 8192});
  Planner planner(longer, slow, slow.devices());
  Candidates all = findCandidates(longer, planner.facts, {}, planner.options,
                                  {4, 8, 1, alikeDevices(slow, slow.devices())});
  for (int64_t cp : {1, 2, 4})
    EXPECT_GT(count(all.list, [&](const Degrees &degrees) { return degrees.cp == cp; }), 0) << cp;
}

TEST(StageGroups, SplitSequencesAlikeInAllGroups) {
  Cluster on = mixed(2, 1);
  Problem problem = transformer({4, 2048, 16, 8192, 4, 8192});
  for (int zero : {0, 3}) {
    Planner planner(problem, on, on.devices());
    Degrees degrees = grouped({{1, 2, 2, false, 1}, {1, 1, 2, false, 2}}, 4, zero);
    degrees.cp = 2;
    ASSERT_EQ(degrees.devices(), 12);
    Estimate estimate;
    auto whole = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
                0.02 * whole->predicted.stepSeconds);
    Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
    ASSERT_TRUE(planned);
    for (const Violation &violation : verify(*planned, whole->plan, on))
      ADD_FAILURE() << violation.message;
    for (size_t group : {0, 1})
      EXPECT_EQ(shardingOf(whole->plan, group)
                    .mesh.size(shardingOf(whole->plan, group).mesh.ofDegree("cp")),
                2);
  }
}

/// The search against all pipelines that there are, each carried out in four ways.
TEST(StageGroups, NoneBeatTheChoice) {
  struct Case {
    TransformerSize size;
    Cluster on;
  };
  auto slowly = [](Cluster on) {
    on.levels.back().bandwidth /= 25;
    return on;
  };
  for (const Case &each : {Case{{6, 2048, 16, 1024, 8, 8192}, mixed(1, 1)},
                           {{4, 2048, 16, 1024, 4, 8192}, mixed(2, 1)},
                           // The best has dp=1 and one mesh, solved for both types.
                           {{4, 4096, 32, 1024, 4, 50304}, slowly(mixed(1, 1))},
                           // Stages receive less under sequence parallelism.
                           {{6, 2048, 16, 1024, 2, 8192}, slowly(mixed(1, 1))}}) {
    Problem problem = transformer(each.size);
    SearchOptions options = optionsOf(each.on.devices());
    auto free = search(problem, each.on, options);
    ASSERT_TRUE(free) << free.error().message;
    Planner planner(problem, each.on, options.devices);
    Candidates all = findCandidates(problem, planner.facts, {}, options,
                                    {int64_t(planner.shardings.getBlocks().size()), 8, 1,
                                     alikeDevices(each.on, options.devices)});
    int groups = 0, uniform = 0;
    for (Degrees degrees : all.list) {
      if (degrees.pp == 1)
        continue;
      EXPECT_EQ(degrees.devices(), options.devices);
      ++(degrees.groups.empty() ? uniform : groups);
      bool splitsSequences = each.size.sequence % degrees.tp == 0;
      for (int zero : {0, 1})
        for (std::optional<bool> sp : {std::optional<bool>(), std::optional(true)}) {
          degrees.zero = zero;
          Estimate estimate;
          auto whole = planner.carriedOut(degrees, estimate, {sp});
          ASSERT_EQ(bool(whole), !sp || splitsSequences)
              << summary(degrees) << (whole ? "" : whole.error().message);
          if (!whole)
            continue;
          EXPECT_TRUE(whole->predicted.fits()) << summary(degrees);
          EXPECT_GE(whole->predicted.stepSeconds, free->predicted.stepSeconds * (1 - 1e-6))
              << summary(degrees) << " instead of " << summary(free->plan.degrees);
        }
    }
    EXPECT_GT(groups, 20);
    EXPECT_GT(uniform, 10);
  }
}

/// Stages of one mesh have one sharding, whatever their devices.
TEST(StageGroups, OneMeshOnSeveralTypesAgreesWithTheEstimate) {
  Cluster on = mixed(1, 1);
  on.levels.back().bandwidth /= 25;
  Problem problem = transformer({4, 4096, 32, 1024, 4, 50304});
  Planner planner(problem, on, 8);
  int compared = 0;
  for (int64_t tp : {1, 2, 4})
    for (int64_t dp = 1; dp * tp <= 4; dp *= 2)
      for (auto schedule : {ScheduleKind::OneFOneB, ScheduleKind::ZeroBubble}) {
        Degrees degrees = {.dp = dp, .tp = tp, .pp = 8 / (dp * tp)};
        degrees.schedule = schedule;
        degrees.numMicrobatches = 4 / dp;
        Estimate estimate;
        auto whole = planner.carriedOut(degrees, estimate);
        ASSERT_TRUE(whole) << summary(degrees) << ": " << whole.error().message;
        EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
                    0.01 * whole->predicted.stepSeconds) << summary(degrees);
        ++compared;
      }
  EXPECT_EQ(compared, 2 * 6);
}

//===-- plans as data -----------------------------------------------------===//

TEST(StageGroups, ArePlansAsYaml) {
  Problem problem = transformer(kSmall);
  Cluster on = mixed(1, 1);
  Planner planner(problem, on, 8);
  auto [plan, planned] = planner.planOf(grouped({{2, 1, 2, false, 4}, {1, 4, 1, false, 1}}, 32, 1));
  std::string text = toYaml(plan, planned);
  auto again = planFromYaml(text, "plan.yaml", planned);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(toYaml(*again, planned), text);
  auto degrees = degreesFromYaml(text, "plan.yaml");
  ASSERT_TRUE(degrees);
  EXPECT_EQ(*degrees, plan.degrees);
  // Axes are those of the group's own mesh.
  size_t other = text.find("other_groups:");
  ASSERT_NE(other, std::string::npos);
  std::string broken = text;
  broken.replace(broken.find("[dp]", other), 4, "[tp]");
  auto refused = planFromYaml(broken, "plan.yaml", planned);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("axis is not in the mesh: tp"), std::string::npos)
      << refused.error().message;
}

TEST(StageGroups, BrokenOnesAreRefused) {
  Problem problem = transformer(kSmall);
  Cluster on = mixed(1, 1);
  Planner planner(problem, on, 8);
  auto [good, planned] = planner.planOf(grouped({{2, 1, 2, false, 4}, {1, 4, 1, false, 1}}, 32));
  ASSERT_TRUE(verify(planned, good, on).empty());
  auto expect = [&, &plan = good, &of = planned](const std::string &message, auto breakIt) {
    Plan broken = plan;
    breakIt(broken);
    std::vector<Violation> violations = verify(of, broken, on);
    ASSERT_FALSE(violations.empty()) << message;
    std::string all;
    for (const Violation &violation : violations)
      all += violation.message + "\n";
    EXPECT_NE(all.find(message), std::string::npos) << message << " not in\n" << all;
  };
  expect("layouts for 1", [](Plan &plan) { plan.others.clear(); });
  expect("layouts for 2", [](Plan &plan) { plan.degrees.groups.clear(); });
  expect("stage groups differ in the samples of a microbatch, 4 and 8",
         [](Plan &plan) { plan.degrees.groups[1].microBatch = 2; });
  expect("aren't those of its first stage group",
         [](Plan &plan) { plan.degrees.groups[0].tp = 4; });
  expect("stage groups have 4 pipeline ranks, the plan's pp is 3",
         [](Plan &plan) { plan.degrees.groups[0].pp = 3; });
  expect("degree of a stage group is out of range: 0",
         [](Plan &plan) { plan.degrees.groups[1].dp = 0; });
  expect("stage group 1: mesh has dp=2, the plan's degree is 4",
         [](Plan &plan) { plan.others[0].mesh.axes[0].size = 2; });
  expect("stage 2 names 4 devices, its mesh has 2",
         [](Plan &plan) { plan.others[0].mesh.axes[0].size = 2; });
  expect("stage group 1: plan shards",
         [](Plan &plan) { plan.others[0].ops.pop_back(); });
  expect("stage group 1: plan has no layout for",
         [](Plan &plan) { plan.others[0].arguments.erase(0); });
  expect("stage group 1: plan has no storage for the parameter: ",
         [](Plan &plan) { plan.others[0].storage.pop_back(); });
  expect("stage group 1: plan says sp=on", [](Plan &plan) { plan.degrees.groups[1].sp = true; });
  expect("stage 2 isn't on neighbouring devices: rank 1 would be on 5, is on 6",
         [](Plan &plan) { std::swap(plan.stages[2].devices[1], plan.stages[2].devices[2]); });
  expect("mesh axis dp has size 0", [](Plan &plan) { plan.others[0].mesh.axes[0].size = 0; });
}
