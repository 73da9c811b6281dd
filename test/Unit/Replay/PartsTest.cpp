#include "Parts.h"

#include <gtest/gtest.h>

using namespace dtc;
using namespace dtc::replay;

namespace {

constexpr uint64_t kElement = 2;

rt::fbs::TensorT tensorOf(std::vector<int64_t> shape, std::vector<int64_t> strides) {
  rt::fbs::TensorT tensor;
  tensor.dtype = rt::fbs::DType::BF16;
  tensor.shape = std::move(shape);
  tensor.strides = std::move(strides);
  return tensor;
}

/// Of [2, 5, 3, 4, 8]: each of the 3, by its place in a token.
const rt::fbs::TensorT kToken = tensorOf({2, 5, 4, 8}, {480, 96, 8, 1});

bool coverTokens(std::vector<uint64_t> offsets, uint64_t elements = 960) {
  std::vector<Part> parts;
  for (uint64_t offset : offsets)
    parts.push_back({offset * kElement, &kToken});
  return makeUp(parts, elements * kElement);
}

} // namespace

TEST(Parts, PartsOfEachTokenMakeUpTheWhole) {
  EXPECT_TRUE(coverTokens({0, 32, 64}));
  EXPECT_TRUE(coverTokens({64, 0, 32}));
}

TEST(Parts, NothingIsWrittenTwiceOrNotAtAll) {
  EXPECT_FALSE(coverTokens({0, 32}));
  EXPECT_FALSE(coverTokens({0, 64}));
  EXPECT_FALSE(coverTokens({32, 64}));
  EXPECT_FALSE(coverTokens({0, 32, 32}));
  EXPECT_FALSE(coverTokens({0, 32, 48}));
  EXPECT_FALSE(coverTokens({0, 32, 64, 64}));
  EXPECT_FALSE(coverTokens({0, 32, 64}, 1056)); // a token is left
  EXPECT_FALSE(coverTokens({0, 32, 96}));       // the last one ends behind the value
  EXPECT_FALSE(coverTokens({}));
}

TEST(Parts, OneTensorIsTheWholeInAnyOrderOfItsDimensions) {
  rt::fbs::TensorT dense = tensorOf({2, 5, 4, 8}, {160, 32, 8, 1}),
                   turned = tensorOf({2, 5, 4, 8}, {160, 8, 40, 1}),
                   gaps = tensorOf({2, 5, 4, 8}, {320, 64, 16, 1}),
                   repeated = tensorOf({2, 5, 4, 8}, {160, 32, 0, 1});
  EXPECT_TRUE(makeUp({{0, &dense}}, 320 * kElement));
  EXPECT_TRUE(makeUp({{0, &turned}}, 320 * kElement));
  EXPECT_FALSE(makeUp({{0, &gaps}}, 640 * kElement));
  EXPECT_FALSE(makeUp({{0, &gaps}}, 632 * kElement)); // up to its last element
  EXPECT_FALSE(makeUp({{0, &repeated}}, 320 * kElement));
  EXPECT_FALSE(makeUp({{kElement, &dense}}, 320 * kElement));
}

TEST(Parts, PartsOfEachHeadAndOnesThatFollowEachOther) {
  rt::fbs::TensorT ofHeads = tensorOf({2, 5, 4, 8}, {320, 64, 16, 1}),
                   dense = tensorOf({2, 5, 4, 8}, {160, 32, 8, 1});
  EXPECT_TRUE(makeUp({{0, &ofHeads}, {8 * kElement, &ofHeads}}, 640 * kElement));
  EXPECT_TRUE(makeUp({{0, &dense}, {320 * kElement, &dense}}, 640 * kElement));
  EXPECT_FALSE(makeUp({{0, &ofHeads}, {320 * kElement, &dense}}, 640 * kElement));
}
