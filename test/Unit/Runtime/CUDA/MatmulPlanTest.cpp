// Products as cuBLASLt is asked for them, carried out by plain loops over the plan.
#include "MatmulPlan.h"

#include <gtest/gtest.h>

#include <numeric>

using dtc::ErrorCategory;
using namespace dtc::rt;
using namespace dtc::rt::cuda;

namespace {

using Doubles = std::vector<double>;

StridedTensor tensor(Dims shape, Dims strides) {
  return {fbs::DType::F32, std::move(shape), std::move(strides)};
}
StridedTensor dense(Dims shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return tensor(std::move(shape), std::move(strides));
}

/// What lies at row and column of op(matrix), `index` of the batch.
int64_t offsetIn(const MatrixPlan &matrix, int64_t row, int64_t column, int64_t index) {
  if (matrix.isTransposed)
    std::swap(row, column);
  return row + column * matrix.ld + index * matrix.batchStride;
}

/// As cuBLASLt does it.
Doubles follow(const MatmulPlan &plan, const Doubles &a, const Doubles &b, size_t size) {
  Doubles c(size, -1);
  auto rows = static_cast<int64_t>(plan.result.rows), cols = static_cast<int64_t>(plan.result.cols);
  auto depth = static_cast<int64_t>(plan.first.isTransposed ? plan.first.rows : plan.first.cols);
  for (const auto &call : plan.calls)
    for (int64_t index = 0; index < plan.batchCount; ++index)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
          const Doubles &first = plan.isSwapped ? b : a, &second = plan.isSwapped ? a : b;
          int64_t atFirst = call[plan.isSwapped], atSecond = call[!plan.isSwapped];
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += first.at(atFirst + offsetIn(plan.first, i, k, index)) *
                   second.at(atSecond + offsetIn(plan.second, k, j, index));
          c.at(call[2] + offsetIn(plan.result, i, j, index)) = sum;
        }
  return c;
}

/// By the strides of the call.
Doubles multiply(const MatmulCall &call, const Doubles &a, const Doubles &b, size_t size) {
  Doubles c(size, -1);
  size_t rank = call.c.shape.size();
  int64_t depth = call.a.shape[rank - 1];
  int64_t total =
      std::accumulate(call.c.shape.begin(), call.c.shape.end(), int64_t(1), std::multiplies<>());
  for (int64_t flat = 0; flat < total; ++flat) {
    int64_t left = flat, atA = 0, atB = 0, atC = 0;
    for (size_t dim = rank; dim-- > 0; left /= call.c.shape[dim]) {
      int64_t i = left % call.c.shape[dim];
      atC += i * call.c.strides[dim];
      if (dim != rank - 1 && call.a.shape[dim] != 1)
        atA += i * call.a.strides[dim];
      if (dim != rank - 2 && call.b.shape[dim] != 1)
        atB += i * call.b.strides[dim];
    }
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += a[atA + k * call.a.strides[rank - 1]] * b[atB + k * call.b.strides[rank - 2]];
    c[atC] = sum;
  }
  return c;
}

MatmulPlan expectRight(const MatmulCall &call, size_t numCalls) {
  Doubles a(4096), b(4096);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<double>(i * 7 % 13) - 6;
    b[i] = static_cast<double>(i * 5 % 11) - 5;
  }
  Result<MatmulPlan> plan = planMatmul(call);
  if (!plan) {
    ADD_FAILURE() << plan.status().message();
    return {};
  }
  EXPECT_EQ(plan->calls.size(), numCalls);
  EXPECT_EQ(follow(*plan, a, b, 4096), multiply(call, a, b, 4096));
  return *plan;
}

} // namespace

TEST(MatmulPlan, RowMajor) {
  MatmulPlan plan = expectRight({dense({4, 6}), dense({6, 5}), dense({4, 5})}, 1);
  EXPECT_TRUE(plan.isSwapped);
  EXPECT_EQ(plan.batchCount, 1);
}

TEST(MatmulPlan, OperandsTransposed) {
  StridedTensor a = tensor({4, 6}, {1, 4}), b = tensor({6, 5}, {1, 6}), c = tensor({4, 5}, {1, 4});
  for (const StridedTensor &left : {dense({4, 6}), a})
    for (const StridedTensor &right : {dense({6, 5}), b})
      for (const StridedTensor &result : {dense({4, 5}), c})
        expectRight({left, right, result}, 1);
}

TEST(MatmulPlan, RowsFurtherApart) {
  expectRight({tensor({4, 6}, {10, 1}), tensor({6, 5}, {8, 1}), tensor({4, 5}, {9, 1})}, 1);
}

TEST(MatmulPlan, DimensionsOfOneElement) {
  for (Dims sizes : {Dims{1, 6, 5}, {4, 1, 5}, {4, 6, 1}, {1, 1, 5}, {1, 6, 1}, {1, 1, 1}}) {
    int64_t m = sizes[0], k = sizes[1], n = sizes[2];
    for (int64_t odd : {1, 0, 77}) { // strides of such a dimension mean nothing
      auto any = [&](int64_t size, int64_t stride) { return size == 1 ? odd : stride; };
      expectRight({tensor({m, k}, {any(m, k), any(k, 1)}), tensor({k, n}, {any(k, n), any(n, 1)}),
                   tensor({m, n}, {any(m, n), any(n, 1)})},
                  1);
    }
  }
}

TEST(MatmulPlan, ABatchOfARepeatedOperandJoinsTheRows) {
  MatmulPlan plan = expectRight({dense({3, 4, 6}), dense({1, 6, 5}), dense({3, 4, 5})}, 1);
  EXPECT_EQ(plan.batchCount, 1);
  EXPECT_EQ(plan.result.cols, 12u);
}

TEST(MatmulPlan, BatchDimensionsThatGoOnAreOne) {
  MatmulPlan plan = expectRight({dense({2, 3, 4, 6}), dense({2, 3, 6, 5}), dense({2, 3, 4, 5})}, 1);
  EXPECT_EQ(plan.batchCount, 6);
}

TEST(MatmulPlan, HeadsBesideTheSequence) {
  // a[b, h, s, d] and c are views of [b, s, h, d]: batch dimensions don't go on.
  constexpr int64_t kB = 2, kH = 3, kS = 4, kD = 5;
  StridedTensor heads = tensor({kB, kH, kS, kD}, {kS * kH * kD, kD, kH * kD, 1});
  StridedTensor keys = tensor({kB, kH, kD, kS}, {kS * kH * kD, kD, 1, kH * kD});
  MatmulPlan plan = expectRight({heads, keys, dense({kB, kH, kS, kS})}, kB);
  EXPECT_EQ(plan.batchCount, kH);
  expectRight({dense({kB, kH, kS, kS}), heads, heads}, kB);
}

TEST(MatmulPlan, OperandsRepeatedAlongOneOfSeveralDimensions) {
  expectRight({dense({2, 3, 4, 6}), dense({1, 3, 6, 5}), dense({2, 3, 4, 5})}, 2);
  expectRight({dense({2, 1, 4, 6}), dense({2, 3, 6, 5}), dense({2, 3, 4, 5})}, 2);
  expectRight({dense({1, 4, 6}), dense({3, 6, 5}), dense({3, 4, 5})}, 1);
}

TEST(MatmulPlan, NothingIsComputedOfAnEmptyProduct) {
  auto plan = planMatmul({dense({0, 6}), dense({6, 5}), dense({0, 5})});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->calls.empty());
}

TEST(MatmulPlan, WhatCublasLtCannotTakeIsRefused) {
  const std::vector<MatmulCall> calls = {
      {tensor({4, 6}, {12, 2}), dense({6, 5}), dense({4, 5})}, // no dimension of stride 1
      {tensor({4, 6}, {0, 1}), dense({6, 5}), dense({4, 5})},  // rows on top of each other
      {dense({4, 6}), dense({6, 5}), tensor({4, 5}, {10, 2})},
      {dense({4, 6}), dense({5, 5}), dense({4, 5})}, // shapes
      {dense({4, 0}), dense({0, 5}), dense({4, 5})}, // nothing to add up
      {dense({2, 4, 6}), dense({3, 6, 5}), dense({2, 4, 5})},
  };
  for (const MatmulCall &call : calls) {
    auto plan = planMatmul(call);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.status().category(), ErrorCategory::InputRefused);
  }
}
