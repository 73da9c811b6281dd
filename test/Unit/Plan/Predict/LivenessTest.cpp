// What steps leave in memory.
#include "Predict/Liveness.h"
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

enum BufferName : int { kTemporary, kKept, kResult };

/// Bytes that a step leaves which may write over a temporary and over what a slot has kept.
int64_t leftByASpentSlot() {
  const Problem problem = transformer({1, 64, 2, 16, 1, 64});
  const ProblemFacts facts{problem};
  const Cluster on = cluster("dgx-h100");
  const CostModel model{on, 1};
  const Plan plan = solveSharding(problem, facts, on, Degrees{})->plan;
  RankExecution execution{problem, facts, plan, model};
  execution.buffers.assign(3, Buffer{.bytes = 100});
  execution.steps.assign(3, {});
  execution.steps[0].writes = {kTemporary};
  execution.steps[1].inPlace = true;
  execution.steps[1].reads = {kTemporary, kKept};
  execution.steps[1].writes = {kResult};
  execution.steps[2].reads = {kResult};
  Liveness liveness(execution, {false, true});
  liveness.advance();
  liveness.advance();
  return liveness.left();
}

} // namespace

TEST(Liveness, WhatASlotHasKeptIsWrittenOverFirst) { EXPECT_EQ(leftByASpentSlot(), 0); }
