// The equal stages of a plan that was found, ready to be asked what they cost.
#pragma once

#include "Planner.h"
#include "Predict/UniformStages.h"

namespace dtc::plan::testing {

struct FoundStages {
  FoundStages(SearchResult result, const Cluster &on)
      : found(std::move(result)), facts(found.problem), blocks(findBlocks(found.problem, facts)),
        stages({found.problem, facts, blocks, found.problem.numMicrobatches}, found.plan, on,
               found.plan.degrees.devices(), nullptr) {
    EXPECT_TRUE(stages.start());
  }
  // Stages refer to the other members.
  FoundStages(const FoundStages &) = delete;
  FoundStages &operator=(const FoundStages &) = delete;

  SearchResult found;
  ProblemFacts facts;
  std::vector<Block> blocks;
  UniformStages stages;
};

} // namespace dtc::plan::testing
