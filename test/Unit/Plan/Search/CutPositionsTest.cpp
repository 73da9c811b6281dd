// Where stages may be cut.
#include "Search/CutPositions.h"
#include "Problems.h"

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
