// Constants of a model, as the importers compute with them.
#include "dtc/Import/Build/HostElementwise.h"
#include "dtc/Raise/Shape.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace dtc::import;

TEST(Host, NumbersWithoutAnIntegerBecomeTheLeast) {
  EXPECT_EQ(truncated(3.7), 3);
  EXPECT_EQ(truncated(-3.7), -3);
  EXPECT_EQ(truncated(std::ldexp(-1.0, 63)), INT64_MIN);
  EXPECT_EQ(truncated(std::nextafter(std::ldexp(1.0, 63), 0)), INT64_MAX - 1023);
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (double number : {std::nan(""), inf, -inf, 1e30, -1e30, std::ldexp(1.0, 63)})
    EXPECT_EQ(truncated(number), INT64_MIN) << number;
}

TEST(Host, SplatsOfIntegersTakeAnyNumber) {
  mlir::MLIRContext context;
  mlir::Type type = mlir::IntegerType::get(&context, 32);
  EXPECT_EQ(HostTensor::splat(type, {4}, -2.5)->ints, std::vector<int64_t>{-2});
  EXPECT_EQ(HostTensor::splat(type, {4}, 1e30)->ints, std::vector<int64_t>{0});
}

TEST(Host, ProductsOfSizesEndAtTheLargestNumber) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_EQ(dtc::raise::product({kLarge, 1 << 20}), int64_t{1} << 60);
  EXPECT_EQ(dtc::raise::product({kLarge, kLarge}), INT64_MAX); // 0 where it wraps
  EXPECT_EQ(dtc::raise::product({kLarge, kLarge, 0}), 0);
}
