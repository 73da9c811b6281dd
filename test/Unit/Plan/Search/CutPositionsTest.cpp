// Where stages may be cut.
#include "Search/CutPositions.h"
#include "Planner.h"

#include <map>
#include <set>

using namespace dtc::plan;
using namespace dtc::plan::testing;

// Costs of a model of equal layers are read off a folded one as long as all layers are cut alike.
TEST(CutPositions, AreAlikeInLayersOfExperts) {
  Problem problem = load("moe");
  ProblemFacts facts(problem);
  std::vector<Block> blocks = findBlocks(problem, facts);
  const size_t whole = cutPositions(problem, facts, blocks, 1).size();
  for (int64_t stages : {6, 8, 10}) {
    std::vector<OpId> cuts = cutPositions(problem, facts, blocks, stages);
    EXPECT_GT(cuts.size(), whole) << stages;
    std::map<OpId, std::set<std::vector<OpId>>> offsets; // by length of the block
    size_t alike = 0;
    for (const Block &block : blocks) {
      std::vector<OpId> own;
      for (OpId cut : cuts)
        if (block.first <= cut && cut <= block.last)
          own.push_back(cut - block.first);
      alike += !offsets[block.last - block.first].insert(own).second;
    }
    EXPECT_EQ(alike, blocks.size() - offsets.size()) << stages;
    EXPECT_GE(alike, 1u) << stages;
  }
}

namespace {

/// A norm that is used twice: ops 1 and 3 read its statistics, op 4 makes those of the next
/// microbatch.
struct TwiceNormed {
  TwiceNormed() {
    ProblemBuilder builder;
    ValueId x = builder.argument(ValueKind::Input, {8, 4, 4});
    ValueId statistics = builder.argument(ValueKind::Buffer, {8, 4, 4});
    ValueId first = builder.pointwise(builder.add(builder.pointwise(x), statistics));
    ValueId second = builder.add(first, statistics);
    ValueId changed = builder.pointwise(second);
    problem = builder.finish({builder.pointwise(builder.pointwise(second))}, 8);
    problem.results.push_back({changed, ResultKind::Output, problem.values[statistics].name});
  }
  Problem problem;
};

} // namespace

TEST(CutPositions, LeaveWhatChangesABufferWithAllThatReadsIt) {
  TwiceNormed model;
  ProblemFacts facts(model.problem);
  for (int64_t stages : {2, 4, 8})
    for (OpId cut : cutPositions(model.problem, facts, {}, stages))
      EXPECT_TRUE(cut < 2 || cut > 4) << cut;
  EXPECT_EQ(cutPositions(model.problem, facts, {}, 8), (std::vector<OpId>{0, 1, 5, 6, 7}));
  // What doesn't change may be read everywhere.
  model.problem.results.pop_back();
  EXPECT_EQ(cutPositions(model.problem, facts, {}, 8).size(), 8U);
}

TEST(CutPositions, ThatLeaveTooFewStagesAreNoCandidates) {
  SearchOutcome refused = found(TwiceNormed().problem, 8, "pp=8");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("one stage must have all that changes and reads a1"),
            std::string::npos)
      << refused.error().message;
}

TEST(CutPositions, ThatPartReadersAreNoPlan) {
  SearchResult result = best(TwiceNormed().problem, 2, "pp=2");
  Plan apart = result.plan;
  ASSERT_EQ(apart.stages.size(), 2U);
  apart.stages[0].lastOp = 2;
  apart.stages[1].firstOp = 3;
  std::vector<Violation> wrong = verify(result.problem, apart, cluster("dgx-h100"));
  ASSERT_FALSE(wrong.empty());
  EXPECT_NE(wrong[0].message.find("changes and reads a1"), std::string::npos) << wrong[0].message;
}
