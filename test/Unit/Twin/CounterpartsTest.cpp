#include "StepMutants.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;

namespace {

using CounterpartsTest = test::ModuleTest<graph::GraphDialect, dist::DistDialect,
                                          arith::ArithDialect, func::FuncDialect>;

// All gathers of a function have its place. The last one gathers less than the others do.
std::string gathers(int64_t size, bool third) {
  const std::string type = "tensor<" + std::to_string(size) + "xf32>",
                    all = "tensor<" + std::to_string(2 * size) + "xf32>", end = " loc(#place)\n";
  std::string text = "#place = loc(\"planned\":1:1)\ndist.mesh @mesh [\"dp\" = 2]\n"
                     "func.func @forward(%a: " +
                     type + ", %b: " + type + ") {\n  ";
  for (int i = 0; i < 2; ++i)
    text += "%" + std::to_string(i) +
            ":2 = dist.all_gather %a, %b dim 0 on @mesh {\"dp\"} : " + type + ", " + type + " -> " +
            all + ", " + all + end;
  if (third)
    text += "%2 = dist.all_gather %a dim 0 on @mesh {\"dp\"} : " + type + " -> " + all + end;
  return text + "  return loc(#place)\n} loc(#place)\n";
}

TEST_F(CounterpartsTest, AreInOneOrderWhateverTheyGather) {
  OwningOpRef<ModuleOp> twin = parseSourceString<ModuleOp>(gathers(4, true), &context),
                        same = parseSourceString<ModuleOp>(gathers(32, true), &context),
                        fewer = parseSourceString<ModuleOp>(gathers(32, false), &context);
  ASSERT_TRUE(twin && same && fewer) << errors;
  // The mesh is number 0.
  EXPECT_EQ(twin::test::counterparts(*twin, 2, *same), std::vector<unsigned>{2});
  EXPECT_EQ(twin::test::counterparts(*twin, 3, *same), std::vector<unsigned>{3});
  EXPECT_EQ(twin::test::counterparts(*twin, 2, *fewer), (std::vector<unsigned>{1, 2}));
  EXPECT_EQ(twin::test::counterparts(*fewer, 1, *twin), (std::vector<unsigned>{1, 2}));
}

} // namespace
