// Forming kernels for a target of which nothing is known but what it answers.
#include "dtc/Kernels/KernelFormation.h"

#include "PlainTarget.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;

namespace {

class KernelFormationTest : public test::ModuleTest<graph::GraphDialect, exec::ExecDialect,
                                                    arith::ArithDialect, func::FuncDialect,
                                                    math::MathDialect> {
protected:
  OwningOpRef<ModuleOp> form(const std::string &text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << errors;
    EXPECT_TRUE(succeeded(kernels::formKernels(*module, target))) << errors;
    return module;
  }
  template <typename Op> static int count(ModuleOp module) {
    int count = 0;
    module.walk([&](Op) { ++count; });
    return count;
  }

  test::PlainTarget target;
};

/// Its library takes the softmax as it is; another layer becomes a kernel, launched as the target
/// says.
TEST_F(KernelFormationTest, TargetSaysWhatStaysWhole) {
  auto module = form("func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
                     "  %0 = dtc.softmax %x 1 : tensor<4x8xf32>\n"
                     "  %1 = dtc.activation gelu %0 : tensor<4x8xf32>\n"
                     "  return %1 : tensor<4x8xf32>\n}\n");
  EXPECT_EQ(count<graph::SoftmaxOp>(*module), 1);
  ASSERT_EQ(count<exec::LaunchOp>(*module), 1);
  EXPECT_EQ(target.planned, 1);
  auto kernel = *module->getOps<exec::KernelOp>().begin();
  EXPECT_EQ(kernel.getScratchBytes(), 8u);
  EXPECT_EQ(kernel.getExtent(), 32u);
}

TEST_F(KernelFormationTest, TargetLimitsTheOpsOfAKernel) {
  // Each reads another tensor: what one tensor determines is repeated instead, and not counted.
  std::string arguments = "%x0: tensor<4x8xf32>", ops;
  for (int i = 0; i < 6; ++i) {
    std::string number = std::to_string(i);
    arguments += ", %a" + number + ": tensor<4x8xf32>";
    ops += "  %x" + std::to_string(i + 1) + " = arith.addf %x" + number + ", %a" + number +
           " : tensor<4x8xf32>\n";
  }
  std::string text = "func.func @f(" + arguments + ") -> tensor<4x8xf32> {\n" + ops +
                     "  return %x6 : tensor<4x8xf32>\n}\n";
  EXPECT_EQ(count<exec::LaunchOp>(*form(text)), 1);
  target.kernelOps = 2;
  auto module = form(text);
  EXPECT_EQ(count<exec::LaunchOp>(*module), 3);
  EXPECT_EQ(count<exec::KernelOp>(*module), 1); // alike
}

/// Queries of [batch, token, head, e] against keys of [batch, token, head, e]: two batch
/// dimensions, or copies that lie as one.
TEST_F(KernelFormationTest, TargetLimitsTheDimensionsOfAProduct) {
  std::string text =
      "func.func @f(%q: tensor<2x4x3x8xf32>, %k: tensor<2x5x3x8xf32>) -> tensor<2x3x4x5xf32> {\n"
      "  %0 = dtc.contract %q [0, 1, 2, 3], %k [0, 4, 2, 3] -> [0, 2, 1, 4] : "
      "tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32> -> tensor<2x3x4x5xf32>\n"
      "  return %0 : tensor<2x3x4x5xf32>\n}\n";
  EXPECT_EQ(count<exec::LaunchOp>(*form(text)), 0);
  target.productRank = 3;
  auto module = form(text);
  EXPECT_EQ(count<exec::LaunchOp>(*module), 2);
  auto product = *module->lookupSymbol<func::FuncOp>("f").getOps<exec::MatmulOp>().begin();
  EXPECT_EQ(product.getBatch(), ArrayRef<int64_t>{6});
}

/// Where a launch is of fixed size, each size of tensor has a kernel, whatever its shape.
TEST_F(KernelFormationTest, TargetSaysWhetherSizesShareKernels) {
  const char *text = "func.func @f(%x: tensor<4x4xf32>, %y: tensor<16xf32>, %z: tensor<8xf32>)\n"
                     "    -> (tensor<4x4xf32>, tensor<16xf32>, tensor<8xf32>) {\n"
                     "  %0 = arith.addf %x, %x : tensor<4x4xf32>\n"
                     "  %1 = arith.addf %y, %y : tensor<16xf32>\n"
                     "  %2 = arith.addf %z, %z : tensor<8xf32>\n"
                     "  return %0, %1, %2 : tensor<4x4xf32>, tensor<16xf32>, tensor<8xf32>\n}\n";
  EXPECT_EQ(count<exec::KernelOp>(*form(text)), 1);
  target.anyExtent = false;
  auto module = form(text);
  EXPECT_EQ(count<exec::KernelOp>(*module), 2);
  EXPECT_EQ(count<exec::LaunchOp>(*module), 3);
}

/// Functions share kernels, and each is told of once; who is told may stop it.
TEST_F(KernelFormationTest, NewKernelsAreToldOf) {
  const char *text = "func.func @a(%x: tensor<16xf32>) -> tensor<16xf32> {\n"
                     "  %0 = arith.addf %x, %x : tensor<16xf32>\n"
                     "  return %0 : tensor<16xf32>\n}\n"
                     "func.func @b(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {\n"
                     "  %0 = arith.addf %x, %x : tensor<8xf32>\n"
                     "  %1 = arith.mulf %x, %x : tensor<8xf32>\n"
                     "  return %0, %1 : tensor<8xf32>, tensor<8xf32>\n}\n";
  for (bool stops : {false, true}) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << errors;
    std::vector<std::string> told;
    kernels::KernelFormation formation(target, [&](exec::KernelOp kernel) {
      EXPECT_EQ(module->lookupSymbol(kernel.getSymName()), kernel.getOperation());
      told.push_back(kernel.getSymName().str());
      return failure(stops && told.size() == 2);
    });
    EXPECT_TRUE(succeeded(formation.form(module->lookupSymbol<func::FuncOp>("a"))));
    EXPECT_EQ(told, std::vector<std::string>{"pointwise_0"});
    EXPECT_EQ(failed(formation.form(module->lookupSymbol<func::FuncOp>("b"))), stops);
    EXPECT_EQ(told.size(), 2u);
  }
}

} // namespace
