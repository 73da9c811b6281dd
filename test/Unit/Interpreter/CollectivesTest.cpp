// Every collective on <x=2, y=2>, where rank r holds r*10, r*10+1, ...
#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Interpreter/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace dtc::interpreter;

namespace {

class CollectivesTest : public testing::Test {
protected:
  CollectivesTest() {
    context.loadDialect<dtc::dist::DistDialect, func::FuncDialect>();
  }

  /// The results of `op` on %x of the shape `in`, by rank; empty on failure.
  std::vector<std::vector<double>> run(const std::string &op, const std::string &in,
                                       const std::string &out) {
    std::string text = "dist.mesh @m [\"x\" = 2, \"y\" = 2]\n"
                       "func.func @main(%x: " + in + ") -> " + out + " {\n  %0 = " + op +
                       "\n  return %0 : " + out + "\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return {};
    auto func = module->lookupSymbol<func::FuncOp>("main");
    std::vector<Tensors> inputs;
    for (int rank = 0; rank < 4; ++rank) {
      Tensor tensor(cast<RankedTensorType>(func.getArgumentTypes()[0]));
      for (size_t i = 0; i < tensor.floats.size(); ++i)
        tensor.floats[i] = rank * 10.0 + i;
      inputs.push_back({tensor});
    }
    auto results = evaluateRanks(func, mesh, inputs);
    std::vector<std::vector<double>> values;
    if (succeeded(results))
      for (const Tensors &rank : *results)
        values.push_back(rank[0].isFloat()
                             ? rank[0].floats
                             : std::vector<double>(rank[0].ints.begin(), rank[0].ints.end()));
    return values;
  }

  using Values = std::vector<std::vector<double>>;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  dtc::sharding::Mesh mesh{{{"x", "x", 2}, {"y", "y", 2}}};
};

TEST_F(CollectivesTest, AllReduce) {
  EXPECT_EQ(run("dist.all_reduce sum %x on @m {\"x\"} : tensor<1xf32>", "tensor<1xf32>",
                "tensor<1xf32>"),
            (Values{{20}, {40}, {20}, {40}}));
  EXPECT_EQ(run("dist.all_reduce max %x on @m {\"x\", \"y\"} : tensor<1xf32>", "tensor<1xf32>",
                "tensor<1xf32>"),
            (Values{{30}, {30}, {30}, {30}}));
}

TEST_F(CollectivesTest, AllGather) {
  EXPECT_EQ(run("dist.all_gather %x dim 0 on @m {\"y\", \"x\"} : tensor<1xf32> -> tensor<4xf32>",
                "tensor<1xf32>", "tensor<4xf32>")[1],
            (std::vector<double>{0, 20, 10, 30}));
  EXPECT_EQ(run("dist.all_gather %x dim 1 on @m {\"y\"} : tensor<2x1xf32> -> tensor<2x2xf32>",
                "tensor<2x1xf32>", "tensor<2x2xf32>")[2],
            (std::vector<double>{20, 30, 21, 31}));
}

TEST_F(CollectivesTest, ReduceScatter) {
  EXPECT_EQ(run("dist.reduce_scatter sum %x dim 0 on @m {\"y\"} : tensor<2xf32> -> tensor<1xf32>",
                "tensor<2xf32>", "tensor<1xf32>"),
            (Values{{10}, {12}, {50}, {52}}));
}

TEST_F(CollectivesTest, AllToAll) {
  // The dimension that is split becomes shorter, the other longer.
  EXPECT_EQ(run("dist.all_to_all %x split 0 concat 1 on @m {\"y\"} : tensor<2x1xf32> -> "
                "tensor<1x2xf32>",
                "tensor<2x1xf32>", "tensor<1x2xf32>"),
            (Values{{0, 10}, {1, 11}, {20, 30}, {21, 31}}));
}

TEST_F(CollectivesTest, PermuteSliceIndex) {
  EXPECT_EQ(run("dist.permute %x from [1, 0] on @m {\"x\"} : tensor<1xf32> -> tensor<1xf32>",
                "tensor<1xf32>", "tensor<1xf32>"),
            (Values{{20}, {30}, {0}, {10}}));
  EXPECT_EQ(run("dist.slice %x dim 0 on @m {\"x\"} : tensor<2xf32> -> tensor<1xf32>",
                "tensor<2xf32>", "tensor<1xf32>"),
            (Values{{0}, {10}, {21}, {31}}));
  EXPECT_EQ(run("dist.axis_index @m {\"y\", \"x\"} : tensor<i64>", "tensor<f32>", "tensor<i64>"),
            (Values{{0}, {2}, {1}, {3}}));
}

TEST_F(CollectivesTest, RefusesInputsThatDontFit) {
  ScopedDiagnosticHandler silence(&context, [](Diagnostic &) { return success(); });
  EXPECT_FALSE(run("dist.all_reduce sum %x on @m {\"x\"} : tensor<1xf32>", "tensor<1xf32>",
                   "tensor<1xf32>")
                   .empty());
  auto func = module->lookupSymbol<func::FuncOp>("main");
  EXPECT_TRUE(failed(evaluateRanks(func, mesh, {})));
  EXPECT_TRUE(failed(evaluateRanks(func, mesh, std::vector<Tensors>(4))));
  Tensor other(RankedTensorType::get({2}, Float32Type::get(&context)));
  EXPECT_TRUE(failed(evaluateRanks(func, mesh, std::vector<Tensors>(4, {other}))));
}

} // namespace
