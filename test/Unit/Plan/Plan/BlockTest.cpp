// Layers are found in the graph itself.
#include "Problems.h"

#include "dtc/Plan/Plan/Blocks.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

TEST(Blocks, FindsRepeatedLayersBetweenOtherOps) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {2, 16, 64});
  std::vector<ValueId> up, down;
  for (int i = 0; i < 5; ++i) {
    up.push_back(builder.argument(ValueKind::Parameter, {64, 256}));
    down.push_back(builder.argument(ValueKind::Parameter, {256, 64}));
  }
  ValueId head = builder.argument(ValueKind::Parameter, {64, 512});
  x = builder.pointwise(builder.pointwise(x));
  for (int i = 0; i < 5; ++i) // four ops each
    x = builder.add(x, builder.contract(builder.pointwise(builder.contract(x, up[i])), down[i]));
  Problem problem = builder.finish({builder.softmax(builder.contract(x, head))}, 2);
  std::vector<Block> blocks = findBlocks(problem, ProblemFacts(problem));
  ASSERT_EQ(blocks.size(), 5u);
  for (OpId i = 0; i < 5; ++i)
    EXPECT_EQ(blocks[i], (Block{2 + 4 * i, 5 + 4 * i}));
}

TEST(Blocks, FindsNoneWhereNothingRepeats) {
  ProblemBuilder builder;
  ValueId x = builder.argument(ValueKind::Input, {2, 16, 64});
  ValueId w = builder.argument(ValueKind::Parameter, {64, 256});
  Problem problem = builder.finish({builder.pointwise(builder.contract(builder.softmax(x), w))}, 2);
  EXPECT_TRUE(findBlocks(problem, ProblemFacts(problem)).empty());
}
