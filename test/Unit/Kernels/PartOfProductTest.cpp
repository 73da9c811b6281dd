// What planning is told of epilogues, against what becomes one.
#include "dtc/Kernels/KernelFormation.h"

#include "PlainTarget.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;

namespace {

class PartOfProduct
    : public test::ModuleTest<graph::GraphDialect, exec::ExecDialect, arith::ArithDialect,
                              func::FuncDialect, math::MathDialect> {
protected:
  PartOfProduct() { target.epilogues = true; }

  /// The ops of a function that a product is said to make.
  std::vector<std::string> parts(const std::string &arguments, const std::string &body) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "  return\n}\n", &context);
    EXPECT_TRUE(module) << errors;
    std::vector<std::string> result;
    module->walk([&](Operation *op) {
      if (kernels::isPartOfProduct(op, target))
        result.push_back(op->getName().getStringRef().str());
    });
    return result;
  }

  test::PlainTarget target;
  OwningOpRef<ModuleOp> module;
};

using Names = std::vector<std::string>;

} // namespace

static const std::string kArguments =
    "%x: tensor<8x32x64xbf16>, %w: tensor<64x128xbf16>, %b: tensor<128xbf16>, "
    "%v: tensor<128x64xbf16>, %dy: tensor<8x32x64xbf16>";
static const std::string kProduct =
    "  %p = dtc.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : "
    "tensor<8x32x64xbf16>, tensor<64x128xbf16> -> tensor<8x32x128xbf16>\n";
static const std::string kSum = kProduct + "  %r = dtc.broadcast %b [2] : tensor<128xbf16> -> "
                                           "tensor<8x32x128xbf16>\n"
                                           "  %s = arith.addf %p, %r : tensor<8x32x128xbf16>\n";
static const std::string kGelu = "  %g = dtc.activation gelu_tanh %s : tensor<8x32x128xbf16>\n";
static const std::string kReader =
    "  %y = dtc.contract %g [0, 1, 2], %v [2, 3] -> [0, 1, 3] : "
    "tensor<8x32x128xbf16>, tensor<128x64xbf16> -> tensor<8x32x64xbf16>\n";

TEST_F(PartOfProduct, BiasAndGelu) {
  EXPECT_EQ(parts(kArguments, kSum + kGelu + kReader), (Names{"arith.addf", "dtc.activation"}));
  target.epilogues = false;
  EXPECT_EQ(parts(kArguments, kSum + kGelu + kReader), Names());
}

TEST_F(PartOfProduct, GradientsOfGeluAndBias) {
  const std::string grads =
      "  %q = dtc.contract %dy [0, 1, 2], %v [3, 2] -> [0, 1, 3] : "
      "tensor<8x32x64xbf16>, tensor<128x64xbf16> -> tensor<8x32x128xbf16>\n"
      "  %d = dtc.activation_grad gelu_tanh %s, %q : tensor<8x32x128xbf16>\n"
      "  %e = arith.extf %d : tensor<8x32x128xbf16> to tensor<8x32x128xf32>\n"
      "  %db = dtc.reduce sum %e [0, 1] : tensor<8x32x128xf32> -> tensor<128xf32>\n"
      "  %dw = dtc.contract %x [0, 1, 2], %d [0, 1, 3] -> [2, 3] : "
      "tensor<8x32x64xbf16>, tensor<8x32x128xbf16> -> tensor<64x128xf32>\n";
  EXPECT_EQ(parts(kArguments, kSum + grads),
            (Names{"arith.addf", "dtc.activation_grad", "dtc.reduce"}));
}

/// The product is read twice; a kernel reads GELU; GELU is the exact one; a sum of two products; a
/// sum over columns; one that no product goes with.
TEST_F(PartOfProduct, WhatKernelsCompute) {
  const std::string other = "  %o = arith.negf %p : tensor<8x32x128xbf16>\n";
  EXPECT_EQ(parts(kArguments, kSum + other), Names());
  const std::string kernel = "  %k = arith.negf %g : tensor<8x32x128xbf16>\n";
  EXPECT_EQ(parts(kArguments, kSum + kGelu + kernel), Names{"arith.addf"});
  const std::string exact = "  %g = dtc.activation gelu %s : tensor<8x32x128xbf16>\n";
  EXPECT_EQ(parts(kArguments, kSum + exact + kReader), Names{"arith.addf"});
  const std::string two = kProduct + "  %s = arith.addf %p, %p : tensor<8x32x128xbf16>\n";
  EXPECT_EQ(parts(kArguments, two), Names());
  const std::string columns =
      "  %e = arith.extf %x : tensor<8x32x64xbf16> to tensor<8x32x64xf32>\n"
      "  %c = dtc.reduce sum %e [2] : tensor<8x32x64xf32> -> tensor<8x32xf32>\n"
      "  %a = dtc.reduce sum %e [0, 1] : tensor<8x32x64xf32> -> tensor<64xf32>\n";
  EXPECT_EQ(parts(kArguments, columns + kProduct), Names());
}
