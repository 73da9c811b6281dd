#include "dtc/Interpreter/DrawnResults.h"

#include "Corner.h"
#include "DrawnWeight.h"
#include "dtc/Interpreter/Interpreter.h"

#include "../ModuleTest.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::interpreter;

namespace {

class DrawnResultsTest : public test::ModuleTest<graph::GraphDialect, arith::ArithDialect,
                                                 math::MathDialect, func::FuncDialect> {
protected:
  func::FuncOp parse(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << errors;
    return *module->getOps<func::FuncOp>().begin();
  }

  RankedTensorType floats(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, Float32Type::get(&context));
  }

  /// Of one layer of attention whose queries are multiplied, turned and masked like that.
  DrawnResults resultsOf(const std::string &attributes, const std::string &factor = "1.0",
                         const std::string &angle = "1.0") {
    func::FuncOp forward = parse(
        R"mlir(
func.func @forward(%w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %x: tensor<2x8x1x4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<2x8x1x4xf32> {dtc.role = #dtc.role<output, "y">}) {
  %position = dtc.iota 1 : tensor<2x8x1x4xf32>
  %factor = arith.constant dense<)mlir" +
        factor + R"mlir(> : tensor<2x8x1x4xf32>
  %angle = arith.constant dense<)mlir" +
        angle + R"mlir(> : tensor<2x8x1x4xf32>
  %angles = arith.mulf %position, %angle : tensor<2x8x1x4xf32>
  %turn = math.cos %angles : tensor<2x8x1x4xf32>
  %q0 = dtc.contract %x [0, 1, 2, 4], %w [3, 4] -> [0, 1, 2, 3] : tensor<2x8x1x4xf32>, tensor<4x4xf32> -> tensor<2x8x1x4xf32>
  %q1 = arith.mulf %q0, %turn : tensor<2x8x1x4xf32>
  %q = arith.mulf %q1, %factor : tensor<2x8x1x4xf32>
  %y, %lse = dtc.attention %q, %x, %x scale )mlir" +
        attributes +
        R"mlir( : tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32> -> tensor<2x8x1x4xf32>, tensor<2x1x8xf32>
  return %y : tensor<2x8x1x4xf32>
})mlir");
    DrawnResults results = drawnResults(forward, [](StringRef) { return DenseElementsAttr(); });
    EXPECT_FALSE(results.values.empty());
    return results;
  }

  OwningOpRef<ModuleOp> module;
};

double differenceOf(const DrawnResults &one, const DrawnResults &other) {
  double difference = 0;
  for (auto [a, b] : llvm::zip_equal(one.values, other.values))
    difference = std::max(difference, std::fabs(a - b));
  return difference;
}

TEST_F(DrawnResultsTest, AreEqualHoweverAScaleIsWritten) {
  const DrawnResults own = resultsOf("0.5 causal");
  EXPECT_EQ(own.shapes, "weights f32, input 1x4x1x4 of 2x8x1x4, output 1x4x1x4");
  EXPECT_LT(differenceOf(own, resultsOf("0.25 causal", "2.0")), 1e-9);
  EXPECT_GT(differenceOf(own, resultsOf("0.25 causal")), 1e-3);
}

TEST_F(DrawnResultsTest, DifferByAnglesAndMasks) {
  const DrawnResults own = resultsOf("0.5 causal");
  const DrawnResults turned = resultsOf("0.5 causal", "1.0", "0.25"), open = resultsOf("0.5");
  EXPECT_EQ(own.angles, std::vector<double>{1});
  EXPECT_EQ(own.inputSizes, "8x1x4");
  EXPECT_EQ(turned.angles, std::vector<double>{0.25});
  EXPECT_GT(differenceOf(own, turned), 1e-3);
  EXPECT_EQ(open.shapes, "weights f32, input 1x8x1x4 of 2x8x1x4, output 1x4x1x4");
  EXPECT_GT(differenceOf(own, open), 1e-3);
}

/// Files of one model may have them in any order. Where they have other names, nobody knows which
/// is which, and nothing is compared.
TEST_F(DrawnResultsTest, AreThoseOfInputsByTheirNames) {
  const auto resultsOf = [&](const char *added, const char *first, const char *second) {
    const auto input = [](const std::string &name) {
      return "%" + name + ": tensor<2x4xf32> {dtc.role = #dtc.role<input, \"" + name + "\">}";
    };
    func::FuncOp forward = parse(
        R"mlir(
func.func @forward(%w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">}, )mlir" +
        input(first) + ", " + input(second) + R"mlir()
    -> (tensor<2x4xf32> {dtc.role = #dtc.role<output, "y">}) {
  %h = dtc.contract %)mlir" +
        (added == std::string(first) ? second : first) +
        R"mlir( [0, 2], %w [1, 2] -> [0, 1] : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %y = arith.addf %h, %)mlir" +
        added + R"mlir( : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
})mlir");
    return drawnResults(forward, [](StringRef) { return DenseElementsAttr(); });
  };
  const DrawnResults own = resultsOf("b", "a", "b");
  EXPECT_EQ(own.shapes,
            "weights f32, input 1x4 of 2x4 named a, input 1x4 of 2x4 named b, output 1x4");
  EXPECT_EQ(own.values, resultsOf("b", "b", "a").values);
  EXPECT_NE(own.values, resultsOf("a", "a", "b").values);
  EXPECT_NE(own.shapes, resultsOf("c", "a", "c").shapes);
}

/// Another file of the model, which rounds otherwise, would have others.
TEST_F(DrawnResultsTest, AreLeftOutWhereRoundingDecides) {
  const auto valuesWith = [&](const std::string &factor) {
    func::FuncOp forward = parse(R"mlir(
func.func @forward(%w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %x: tensor<2x4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<2x4xf32> {dtc.role = #dtc.role<output, "y">}) {
  %factor = arith.constant dense<)mlir" +
                                 factor + R"mlir(> : tensor<2x4xf32>
  %h = dtc.contract %x [0, 2], %w [1, 2] -> [0, 1] : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %large = arith.mulf %h, %factor : tensor<2x4xf32>
  %y = math.sin %large : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
})mlir");
    return drawnResults(forward, [](StringRef) { return DenseElementsAttr(); }).values;
  };
  EXPECT_FALSE(valuesWith("1.0").empty());
  EXPECT_TRUE(valuesWith("1.0e+06").empty());
}

/// A corner's results are the first of the whole function's.
TEST_F(DrawnResultsTest, CornersAreComputedFromFirstElements) {
  func::FuncOp whole = parse(R"mlir(
func.func @forward(%x: tensor<2x6x3x4xf32> {dtc.role = #dtc.role<input, "x">}) -> tensor<2x3x6xf32> {
  %rows = dtc.reshape %x : tensor<2x6x3x4xf32> -> tensor<12x12xf32>
  %first = dtc.slice %rows offsets [0, 1] strides [1, 2] : tensor<12x12xf32> -> tensor<12x3xf32>
  %again = dtc.reshape %first : tensor<12x3xf32> -> tensor<2x6x3xf32>
  %sum = dtc.softmax %again 2 : tensor<2x6x3xf32>
  %y = dtc.transpose %sum [0, 2, 1] : tensor<2x6x3xf32> -> tensor<2x3x6xf32>
  return %y : tensor<2x3x6xf32>
})mlir");
  auto module = cornerOf(whole, 2);
  ASSERT_TRUE(module) << errors;
  func::FuncOp corner = *module->getOps<func::FuncOp>().begin();
  ASSERT_EQ(corner.getArgumentTypes()[0], floats({1, 2, 2, 4})); // up to the sixth of 12
  const Tensor input = randomTensor(floats({2, 6, 3, 4}), 1, 0);
  Tensor first(floats({1, 2, 2, 4}));
  for (int64_t row : {0, 1})
    std::copy_n(input.floats.begin() + row * 12, 8, first.floats.begin() + row * 8);
  auto all = evaluate(whole, {input}), some = evaluate(corner, {first});
  ASSERT_TRUE(succeeded(all) && succeeded(some)) << errors;
  ASSERT_EQ(some->front().type, floats({1, 2, 2}));
  for (int64_t row : {0, 1})
    for (int64_t column : {0, 1})
      EXPECT_EQ(some->front().floats[row * 2 + column], all->front().floats[row * 6 + column]);
}

/// Else nothing would match what earlier checkpoints say of their models. Computed by hand.
TEST_F(DrawnResultsTest, WeightsAreWhatTheyWere) {
  EXPECT_DOUBLE_EQ(drawn(1, 2), 0.9420055071735924);
  const DrawnWeight weight("w", floats({5, 3}), {5, 3}, 0),
      moved("w", floats({5, 3}), {5, 3}, 1e-6);
  const double own[] = {0.3262600265366362, -0.9641351227574901, -2.180041292418439};
  const double nudged[] = {0.3262603270217587, -0.9641360107248685, -2.1800401195302497};
  for (int64_t i : {0, 1, 2}) {
    EXPECT_DOUBLE_EQ(weight.at(i), own[i]) << i;
    EXPECT_DOUBLE_EQ(moved.at(i), nudged[i]) << i;
  }
}

/// Where elements come one by one and where they aren't made, a product is the same.
TEST_F(DrawnResultsTest, WeightsAreMultipliedAsTheirElements) {
  struct Case {
    SmallVector<int64_t> file, view, other, result;
    const char *indices;
  };
  for (const Case &each :
       {Case{{5, 3}, {5, 3}, {2, 3}, {2, 5}, "%x [0, 2], %w [1, 2] -> [0, 1]"},
        Case{{3, 6}, {3, 2, 3}, {2, 3}, {2, 2, 3}, "%x [0, 3], %w [3, 1, 2] -> [0, 1, 2]"},
        Case{{4, 6}, {4, 2, 3}, {2, 3, 2}, {4, 2}, "%w [0, 2, 3], %x [2, 3, 1] -> [0, 1]"}}) {
    auto text = [&](ArrayRef<int64_t> shape) {
      std::string result;
      llvm::raw_string_ostream(result) << floats(shape);
      return result;
    };
    const bool isLhs = StringRef(each.indices).starts_with("%w");
    const std::string x = text(each.other), w = text(each.view), y = text(each.result);
    func::FuncOp function =
        parse("func.func @f(%w: " + w + ", %x: " + x + ") -> " + y + " { %y = dtc.contract " +
              each.indices + " : " + (isLhs ? w + ", " + x : x + ", " + w) + " -> " + y +
              " return %y : " + y + " }");
    const DrawnWeight weight("w", floats(each.view), each.file, 0);
    const Tensor other = randomTensor(floats(each.other), 1, 0);
    auto expected = evaluate(function, {weight.whole(), other}, Numerics::Double);
    ASSERT_TRUE(succeeded(expected)) << errors;
    auto contract = *function.getOps<graph::ContractOp>().begin();
    ASSERT_TRUE(weight.stepsOf(contract, isLhs)) << each.indices;
    EXPECT_LT(maxDifference(weight.product(contract, isLhs, other), expected->front()), 1e-12);
  }
}

} // namespace
