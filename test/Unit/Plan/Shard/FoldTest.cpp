// Equal layers are planned once.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Plan/Fold.h"
#include "dtc/Plan/Search/ShardCosts.h"
#include "dtc/Plan/Shard/ShardingSolver.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

std::optional<Folding> folded(const Problem &problem) {
  ProblemFacts facts(problem);
  return fold(problem, facts, findBlocks(problem, facts));
}

Problem layers(int64_t count) { return transformer({count, 64, 4, 32, 8, 256}); }

/// Without what tells one layer from another.
Problem anonymous(Problem problem) {
  for (Value &value : problem.values)
    value.name.clear();
  for (Op &op : problem.ops)
    op.location.clear();
  for (FunctionResult &result : problem.results)
    result.name.clear();
  return problem;
}

} // namespace

// The first layer is none of the blocks: it reads what isn't made by one.
TEST(Fold, LeavesSixOfManyBlocks) {
  std::optional<Folding> ten = folded(layers(10));
  ASSERT_TRUE(ten);
  EXPECT_EQ(ten->blocks.size(), 6u);
  EXPECT_EQ(ten->repeated, 3);
  EXPECT_EQ(ten->copies, 4);
  // What is left is the model of seven layers, whatever there was.
  Problem seven = anonymous(layers(7));
  EXPECT_TRUE(anonymous(ten->problem) == seven);
  EXPECT_TRUE(anonymous(folded(layers(23))->problem) == seven);
}

TEST(Fold, EveryOpHasOneThatStandsForIt) {
  Problem whole = layers(11);
  std::optional<Folding> folding = folded(whole);
  ASSERT_TRUE(folding);
  std::vector<int> times(folding->problem.ops.size(), 0);
  for (size_t id = 0; id < whole.ops.size(); ++id) {
    const Op &op = whole.ops[id], &by = folding->problem.ops[folding->ops[id]];
    ++times[folding->ops[id]];
    EXPECT_EQ(op.name, by.name);
    EXPECT_EQ(op.rule, by.rule);
    EXPECT_EQ(op.backward, by.backward);
    for (size_t i = 0; i < op.results.size(); ++i)
      EXPECT_EQ(folding->values[op.results[i]], by.results[i]);
  }
  for (size_t id = 0; id < times.size(); ++id)
    EXPECT_EQ(times[id], folding->opHome[id] == folding->repeated ? folding->copies : 1);
}

TEST(Fold, KeepsWhatDiffersAndFewLayers) {
  EXPECT_TRUE(folded(layers(9)));
  EXPECT_FALSE(folded(layers(8)));
  // One of the layers in the middle does more work: on each side too few are alike.
  Problem problem = layers(12);
  ProblemFacts facts(problem);
  std::vector<Block> blocks = findBlocks(problem, facts);
  ASSERT_EQ(blocks.size(), 11u);
  problem.ops[blocks[5].first + 1].scratch += 1;
  EXPECT_FALSE(fold(problem, facts, blocks));
  // At one of the ends it is left as it is.
  problem = layers(12);
  problem.ops[blocks[1].first + 1].scratch += 1;
  std::optional<Folding> folding = fold(problem, facts, blocks);
  ASSERT_TRUE(folding);
  EXPECT_EQ(folding->problem.ops[folding->blocks[1].first + 1].scratch, 1);
}

TEST(Fold, KeepsLayersOfWhichAllAreReadInTheEnd) {
  Problem problem = layers(12);
  ProblemFacts facts(problem);
  std::vector<Block> blocks = findBlocks(problem, facts);
  // As a dense connection would: the head reads the fifth layer's output.
  Op &head = problem.ops[facts.lastForward];
  head.operands[0] = problem.ops[blocks[5].last].results[0];
  EXPECT_FALSE(fold(problem, ProblemFacts(problem), blocks));
}

//===-- folded and whole --------------------------------------------------===//

namespace {

/// Every figure of every run of units.
void expectSame(const UnitCosts &folded, const UnitCosts &whole, const std::string &text) {
  ASSERT_EQ(folded.units(), whole.units()) << text;
  for (int a = 0; a < whole.units(); ++a) {
    EXPECT_EQ(folded.forwardBytes(a), whole.forwardBytes(a)) << text << " before " << a;
    EXPECT_EQ(folded.backwardBytes(a), whole.backwardBytes(a)) << text << " before " << a;
    for (int b = a + 1; b <= whole.units(); ++b) {
      std::string where = text + " units " + std::to_string(a) + " to " + std::to_string(b);
      EXPECT_EQ(folded.savedBytes(a, b), whole.savedBytes(a, b)) << where;
      EXPECT_EQ(folded.remadeBytes(a, b), whole.remadeBytes(a, b)) << where;
      for (int cut : {a, b})
        EXPECT_EQ(folded.slotBytesOver(cut, a, b, true), whole.slotBytesOver(cut, a, b, true))
            << where;
      EXPECT_EQ(folded.peakBytes(a, b), whole.peakBytes(a, b)) << where;
      for (auto part : {&UnitCosts::seconds, &UnitCosts::communication, &UnitCosts::host}) {
        PassSeconds x = (folded.*part)(a, b), y = (whole.*part)(a, b);
        EXPECT_DOUBLE_EQ(x.forward, y.forward) << where;
        EXPECT_DOUBLE_EQ(x.backward(), y.backward()) << where;
      }
    }
  }
}

struct Case {
  TransformerSize size;
  int64_t devices;
  const char *spec;
};

SearchResult planned(const Case &each, bool fold) {
  SearchOptions options = optionsOf(each.devices, each.spec);
  options.fold = fold;
  Problem problem = transformer(each.size);
  SearchOutcome result = search(problem, cluster("dgx-h100"), options);
  if (!result)
    ADD_FAILURE() << each.spec << ": " << result.error().message;
  return result ? *result : SearchResult{};
}

} // namespace

TEST(Fold, ShardsAsWithoutIt) {
  Problem whole = transformer({14, 2048, 12, 1024, 16, 32768});
  ProblemFacts facts(whole);
  std::optional<Folding> folding = folded(whole);
  ASSERT_TRUE(folding);
  ProblemFacts foldedFacts(folding->problem);
  Cluster on = cluster("dgx-h100");
  for (auto [dp, tp, cp] : {std::tuple(1, 1, 1), {8, 1, 1}, {1, 4, 1}, {2, 8, 1}, {2, 2, 2}}) {
    Degrees degrees;
    degrees.dp = dp;
    degrees.tp = tp;
    degrees.cp = cp;
    for (double secondsPerByte : {0.0, 1e-9})
      for (std::optional<bool> sp : {std::optional<bool>(), {true}, {false}}) {
        SolverOptions options;
        options.secondsPerByte = secondsPerByte;
        options.sequenceParallel = sp;
        auto expected = ShardingSolver(whole, facts, on, degrees, options).solve();
        auto found =
            ShardingSolver(folding->problem, foldedFacts, on, degrees, options, nullptr, &*folding)
                .solveFolded();
        ASSERT_TRUE(expected && found && *found) << summary(degrees);
        EXPECT_NEAR((*found)->seconds, expected->seconds, 1e-11 * expected->seconds);
        EXPECT_EQ((*found)->gap, expected->gap);
        EXPECT_TRUE(unfold(*folding, whole, (*found)->plan) == expected->plan)
            << summary(degrees) << ": another plan that costs as much";
      }
  }
}

TEST(Fold, ProfilesAsWithoutIt) {
  Problem whole = transformer({12, 1024, 16, 1024, 8, 8192});
  ProblemFacts facts(whole);
  std::vector<Block> blocks = findBlocks(whole, facts);
  std::optional<Folding> folding = fold(whole, facts, blocks);
  ASSERT_TRUE(folding);
  ProblemFacts foldedFacts(folding->problem);
  Cluster on = cluster("dgx-h100");
  on.software.flashAttention = 0; // there is something to select
  CostModel model(on, 8);
  std::vector<OpId> between = {0}, inside;
  for (const Block &block : blocks)
    between.push_back(block.first);
  between.push_back(facts.lastForward + 1);
  inside = between;
  for (const Block &block : blocks)
    inside.push_back(block.first + 4);
  std::sort(inside.begin(), inside.end());
  const Software &software = model.getCluster().software;
  int leaving = 0; // gradients that are brought to their parameters in the end
  for (auto [dp, tp, cp] : {std::tuple(1, 1, 1), {1, 8, 1}, {2, 2, 2}, {1, 2, 1}}) {
    Degrees degrees;
    degrees.dp = dp;
    degrees.tp = tp;
    degrees.cp = cp;
    for (double secondsPerByte : {0.0, 1e-10, 1e-9}) {
      SolverOptions options;
      options.secondsPerByte = secondsPerByte;
      auto found =
          ShardingSolver(folding->problem, foldedFacts, on, degrees, options, nullptr, &*folding)
              .solveFolded();
      ASSERT_TRUE(found && *found);
      Plan plan = (*found)->plan, wholePlan = unfold(*folding, whole, plan);
      for (Recompute kind : {Recompute::None, Recompute::Selective, Recompute::Full})
        for (const std::vector<OpId> &cuts : {between, inside}) {
          RankExecution run(folding->problem, foldedFacts, plan, model);
          addRecomputation(run, folding->problem, folding->blocks,
                           recomputeAll(folding->blocks, kind), software);
          RankExecution wholeRun(whole, facts, wholePlan, model);
          addRecomputation(wholeRun, whole, blocks, recomputeAll(blocks, kind), software);
          std::optional<FoldedCuts> at = foldCuts(*folding, blocks, cuts);
          ASSERT_TRUE(at);
          auto unitCosts =
              UnitCosts::ofFolded(folding->problem, foldedFacts, run, plan.mesh, *at, cuts);
          ASSERT_TRUE(unitCosts) << summary(degrees);
          expectSame(*unitCosts, UnitCosts(whole, facts, wholeRun, plan.mesh, cuts),
                     summary(degrees));
          leaving += run.steps.back().collective.has_value();
        }
    }
  }
  EXPECT_GE(leaving, 6);
}

TEST(Fold, CutsOnlyWhatIsCutAlike) {
  Problem whole = layers(12);
  ProblemFacts facts(whole);
  std::vector<Block> blocks = findBlocks(whole, facts);
  std::optional<Folding> folding = fold(whole, facts, blocks);
  ASSERT_TRUE(folding);
  std::vector<OpId> cuts = {0};
  for (const Block &block : blocks)
    cuts.push_back(block.first);
  cuts.push_back(facts.lastForward + 1);
  std::optional<FoldedCuts> at = foldCuts(*folding, blocks, cuts);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->cuts.size(), cuts.size() - folding->copies + 1);
  EXPECT_EQ(at->units.at(at->units.first, 2), at->units.first + 2);
  std::vector<OpId> more = cuts, fewer = cuts;
  more.insert(more.begin() + 6, cuts[5] + 2); // within one block only
  EXPECT_FALSE(foldCuts(*folding, blocks, more));
  fewer.erase(fewer.begin() + 6); // between all but two blocks
  EXPECT_FALSE(foldCuts(*folding, blocks, fewer));
}

TEST(Fold, PlansAsWithoutIt) {
  const Case cases[] = {
      {{12, 1024, 16, 1024, 64, 8192}, 8, "auto"},
      {{13, 2048, 16, 2048, 64, 32768}, 16, "pp=4"},
      {{13, 2048, 16, 2048, 64, 32768, DType::BF16, true, true}, 16, "pp=4"},
      {{16, 4096, 32, 2048, 32, 32768}, 8, "tp=8,sp=on"},
      {{11, 4096, 32, 2048, 32, 32768}, 8, "dp=2,tp=4,pp=1,zero=1,recompute=full"},
      {{24, 8192, 64, 4096, 128, 32768}, 64, "tp=8,pp=4,schedule=interleaved"},
      {{16, 2048, 16, 8192, 16, 32768}, 16, "cp=4,tp=2"},
      {{10, 2048, 12, 1024, 16, 32768}, 8, "tp=8"}, // heads that 8 doesn't divide
  };
  for (const Case &each : cases) {
    SearchResult folded = planned(each, true), whole = planned(each, false);
    EXPECT_EQ(folded.plan.degrees, whole.plan.degrees)
        << each.spec << ": " << summary(folded.plan.degrees) << " instead of "
        << summary(whole.plan.degrees);
    EXPECT_TRUE(folded.plan == whole.plan) << each.spec;
    EXPECT_TRUE(folded.problem == whole.problem) << each.spec;
    EXPECT_NEAR(folded.predicted.stepSeconds, whole.predicted.stepSeconds,
                1e-9 * whole.predicted.stepSeconds) << each.spec;
    EXPECT_EQ(folded.predicted.memory, whole.predicted.memory) << each.spec;
    EXPECT_EQ(folded.alternatives.size(), whole.alternatives.size()) << each.spec;
    EXPECT_EQ(folded.optimalityGap, whole.optimalityGap) << each.spec;
  }
}
