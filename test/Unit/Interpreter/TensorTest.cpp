#include "dtc/Interpreter/Tensor.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace dtc::interpreter;

namespace {

class TensorTest : public testing::Test {
protected:
  RankedTensorType type(ArrayRef<int64_t> shape, Type element) {
    return RankedTensorType::get(shape, element);
  }
  MLIRContext context;
  Builder builder{&context};
};

/// LLVM's own rounding to the type.
double rounded(double value, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

TEST_F(TensorTest, RoundsLikeLLVM) {
  // Every magnitude with random digits, ties, and what lies next to them.
  Tensor digits = randomTensor(type({2048}, builder.getF64Type()), 7, 4);
  std::vector<double> values;
  for (size_t i = 0; i < digits.floats.size(); ++i) {
    double value = std::ldexp(digits.floats[i], static_cast<int>(i % 320) - 170);
    values.push_back(value);
    double tie = std::ldexp(2 * std::floor(std::fabs(digits.floats[i]) * 4096) + 1,
                            static_cast<int>(i % 40) - 30);
    for (double near : {tie, std::nextafter(tie, 0.0), std::nextafter(tie, 1e300)})
      values.push_back(near);
  }
  for (Type element : {builder.getF16Type(), builder.getBF16Type(), builder.getF32Type()}) {
    Tensor tensor(type({static_cast<int64_t>(values.size())}, element));
    tensor.floats = values;
    roundToType(tensor);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(tensor.floats[i], rounded(values[i], cast<FloatType>(element).getFloatSemantics()))
          << values[i];
  }
}

TEST_F(TensorTest, KeepsWhatIsNotFinite) {
  Tensor tensor(type({3}, builder.getBF16Type()));
  tensor.floats = {std::numeric_limits<double>::infinity(), std::nan(""), -0.0};
  roundToType(tensor);
  EXPECT_TRUE(std::isinf(tensor.floats[0]));
  EXPECT_TRUE(std::isnan(tensor.floats[1]));
  EXPECT_TRUE(tensor.floats[2] == 0 && std::signbit(tensor.floats[2]));
}

TEST_F(TensorTest, WrapsIntegers) {
  Tensor bytes(type({3}, builder.getI8Type()));
  bytes.ints = {128, -129, 255};
  roundToType(bytes);
  EXPECT_EQ(bytes.ints, (std::vector<int64_t>{-128, 127, -1}));
  Tensor flags(type({2}, builder.getI1Type()));
  flags.ints = {3, -2};
  roundToType(flags);
  EXPECT_EQ(flags.ints, (std::vector<int64_t>{1, 0}));
}

TEST_F(TensorTest, ReadsBackConstants) {
  std::vector<Type> elements{builder.getF16Type(), builder.getBF16Type(), builder.getF32Type(),
                             builder.getF64Type(), builder.getI1Type(),   builder.getI8Type(),
                             builder.getI64Type()};
  for (Type element : elements) {
    Tensor tensor = randomTensor(type({3, 5}, element), 3, 100);
    FailureOr<Tensor> read = toTensor(toAttr(tensor));
    ASSERT_TRUE(succeeded(read));
    EXPECT_EQ(read->floats, tensor.floats);
    EXPECT_EQ(read->ints, tensor.ints);
  }
}

TEST_F(TensorTest, DrawsWithinBounds) {
  Tensor floats = randomTensor(type({1000}, builder.getF32Type()), 1, 4);
  EXPECT_GE(*llvm::min_element(floats.floats), -1.0);
  EXPECT_LE(*llvm::max_element(floats.floats), 1.0);
  EXPECT_LT(*llvm::min_element(floats.floats), -0.9);
  EXPECT_GT(*llvm::max_element(floats.floats), 0.9);
  Tensor ints = randomTensor(type({1000}, builder.getI64Type()), 1, 4);
  EXPECT_EQ(*llvm::min_element(ints.ints), 0);
  EXPECT_EQ(*llvm::max_element(ints.ints), 3);
}

TEST_F(TensorTest, MeasuresDifferences) {
  double infinity = std::numeric_limits<double>::infinity();
  Tensor a(type({3}, builder.getF32Type())), b = a;
  a.floats = {infinity, std::nan(""), 200.0};
  b.floats = {infinity, std::nan(""), 100.0};
  EXPECT_EQ(maxDifference(a, b), 1.0);
  b.floats[0] = -infinity;
  EXPECT_EQ(maxDifference(a, b), infinity);
  b.floats[0] = infinity;
  b.floats[1] = 0;
  EXPECT_EQ(maxDifference(a, b), infinity);
}

} // namespace
