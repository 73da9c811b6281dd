#include "dtc/Sharding/Strides.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

using Shape = std::vector<int64_t>;

static void expectPlace(const std::optional<Strided> &place, int64_t offset, const Shape &strides) {
  ASSERT_TRUE(place);
  EXPECT_EQ(place->offset, offset);
  EXPECT_EQ(place->strides, strides);
}

TEST(Strides, AreThoseOfTheHeadersTable) {
  const Strided whole = dense(Shape{2, 3, 4});
  expectPlace(whole, 0, {12, 4, 1});
  const Strided rows = readOf(whole, std::vector<DimRead>{{0}, {1, 1}, {2}});
  expectPlace(rows, 4, {12, 4, 1});
  const Strided columns = readOf(rows, std::vector<DimRead>{{0}, {1}, {2, 0, 2}});
  expectPlace(columns, 4, {12, 4, 2});
  const auto matrix = reshaped(Shape{2, 1, 2}, columns, Shape{2, 2});
  expectPlace(matrix, 4, {12, 2});
  const Strided transposed = readOf(*matrix, std::vector<DimRead>{{1}, {0}});
  expectPlace(transposed, 4, {2, 12});
  expectPlace(readOf(transposed, std::vector<DimRead>{{-1, 0, 0}, {0}, {1}}), 4, {0, 2, 12});
}

TEST(Strides, OfReshapesEndAtSeams) {
  const Strided whole = dense(Shape{2, 3, 4});
  expectPlace(reshaped(Shape{2, 3, 4}, whole, Shape{6, 4}), 0, {4, 1});
  expectPlace(reshaped(Shape{2, 3, 4}, whole, Shape{4, 1, 6}), 0, {6, 1, 1});
  const Strided rows = readOf(whole, std::vector<DimRead>{{0}, {1, 1}, {2}}); // of 2x2x4
  expectPlace(reshaped(Shape{2, 2, 4}, rows, Shape{2, 8}), 4, {12, 1});
  expectPlace(reshaped(Shape{2, 2, 4}, rows, Shape{2, 2, 2, 2}), 4, {12, 4, 2, 1});
  EXPECT_FALSE(reshaped(Shape{2, 2, 4}, rows, Shape{4, 4}));
  EXPECT_FALSE(reshaped(Shape{2, 2, 4}, rows, Shape{16}));
}

TEST(Strides, OfAnOperandFollowWhereAllOfItIsRead) {
  const std::vector<DimRead> transpose = {{0}, {2}, {1}};
  const Shape operand = {2, 3, 4}, result = {2, 4, 3};
  const Strided inner = {5, {100, 10, 1}};
  const auto place = placeOfOperand(operand, transpose, result, inner);
  expectPlace(place, 5, {100, 1, 10});
  EXPECT_EQ(readOf(*place, transpose).strides, inner.strides);
  auto refused = [&](std::vector<DimRead> reads, const Shape &shape) {
    EXPECT_FALSE(placeOfOperand(operand, reads, shape, inner));
  };
  refused({{0}, {1, 1}, {2}}, {2, 2, 4});
  refused({{0}, {1}, {2}}, {2, 2, 4});
  refused({{0}, {1}, {2, 0, 2}}, {2, 3, 2});
  refused({{-1, 0, 0}, {1}, {2}}, {2, 3, 4});
  refused({{0}, {1}, {1}}, {2, 3, 3});
  refused({{1}, {2}}, {3, 4});
}

TEST(Strides, OfRowsAreDenseInsideAndAligned) {
  expectPlace(alignedRows(Shape{2, 3, 8}, {16, {48, 16, 1}}, 8), 16, {48, 16, 1});
  EXPECT_FALSE(alignedRows(Shape{2, 3, 8}, {4, {48, 16, 1}}, 8)) << "begins amid a vector";
  EXPECT_FALSE(alignedRows(Shape{2, 3, 8}, {0, {48, 12, 1}}, 8)) << "second row";
  EXPECT_FALSE(alignedRows(Shape{2, 3, 8}, {0, {48, 16, 2}}, 8)) << "elements are apart";
  EXPECT_FALSE(alignedRows(Shape{2, 3, 8}, {0, {0, 16, 1}}, 8)) << "is repeated";
  EXPECT_FALSE(alignedRows(Shape{2, 3, 8}, {0, {48, 16, 1}}, 0)) << "takes none";
  // Of dimensions of size 1 the strides become those of a dense tensor.
  expectPlace(alignedRows(Shape{2, 1, 8}, {0, {48, 3, 1}}, 8), 0, {48, 8, 1});
  EXPECT_FALSE(alignedRows(Shape{2, 1, 1}, {0, {48, 8, 5}}, 8)) << "a row of one element";
}
