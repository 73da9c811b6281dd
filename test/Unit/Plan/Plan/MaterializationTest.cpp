// Which values exist in memory, of ops by their place in the problems.
#include "Problems.h"

#include "dtc/Plan/Plan/Materialization.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// A grouped product that reads rows where they are computes sums again for each of them. It
/// doesn't compute exponentials again.
TEST(Materialization, OnlyCheapArithmeticIsRepeatedForEachRow) {
  Problem problem = load("mixtral");
  const ValueId activation = problem.ops[21].results[0];
  problem.ops[23].operands[0] = activation; // of the product, which reads a gated one else
  const ProblemFacts facts(problem);
  ASSERT_TRUE(problem.ops[21].dear && problem.ops[23].isGroupedProduct());
  EXPECT_TRUE(findStored(problem, facts, ExpertRows::InPlace)[activation]);
  EXPECT_TRUE(findStored(problem, facts, ExpertRows::InOrder)[activation]);
  problem.ops[21].dear = false;
  EXPECT_FALSE(findStored(problem, facts, ExpertRows::InPlace)[activation]);
}
