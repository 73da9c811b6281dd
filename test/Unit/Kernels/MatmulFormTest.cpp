#include "dtc/Kernels/MatmulForm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace dtc::kernels;

namespace {

constexpr size_t kMaxRank = 12;

/// Indices of an einsum over dense tensors, each a list of index numbers.
struct Einsum {
  std::vector<int64_t> sizes;
  std::array<std::vector<int>, 3> tensors; ///< lhs, rhs, result

  std::vector<ContractionIndex> indices() const {
    std::vector<ContractionIndex> list(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i)
      list[i].size = sizes[i];
    for (int tensor : {Lhs, Rhs, Result}) {
      int64_t stride = 1;
      for (auto it = tensors[tensor].rbegin(); it != tensors[tensor].rend(); ++it) {
        list[*it].strides[tensor] = stride;
        stride *= sizes[*it];
      }
    }
    return list;
  }
  int64_t elements(int tensor) const {
    int64_t count = 1;
    for (int index : tensors[tensor])
      count *= sizes[index];
    return count;
  }
};

using Data = std::vector<int64_t>;

/// Visits every point of a grid.
void forEach(const std::vector<int64_t> &sizes,
             const std::function<void(const std::vector<int64_t> &)> &visit) {
  std::vector<int64_t> point(sizes.size(), 0);
  int64_t count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; ++i) {
    visit(point);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++point[d] < sizes[d])
        break;
      point[d] = 0;
    }
  }
}

Data reference(const Einsum &einsum, const Data &lhs, const Data &rhs) {
  Data result(einsum.elements(Result), 0);
  std::vector<ContractionIndex> indices = einsum.indices();
  auto at = [&](Tensor tensor, const std::vector<int64_t> &point) {
    int64_t offset = 0;
    for (size_t i = 0; i < point.size(); ++i)
      offset += indices[i].strides[tensor].value_or(0) * point[i];
    return offset;
  };
  forEach(einsum.sizes, [&](const std::vector<int64_t> &point) {
    result[at(Result, point)] += lhs[at(Lhs, point)] * rhs[at(Rhs, point)];
  });
  return result;
}

Data execute(const MatmulForm &form, const Data &lhs, const Data &rhs, int64_t resultSize) {
  const Data &a = form.swapped ? rhs : lhs, &b = form.swapped ? lhs : rhs;
  Data result(resultSize, 0);
  std::vector<int64_t> sizes = form.batch;
  sizes.insert(sizes.end(), {form.m, form.n, form.k});
  size_t batch = form.batch.size();
  forEach(sizes, [&](const std::vector<int64_t> &p) {
    auto at = [&](Tensor tensor, int64_t row, int64_t column) {
      int64_t offset = form.strides[tensor][batch] * row + form.strides[tensor][batch + 1] * column;
      for (size_t d = 0; d < batch; ++d)
        offset += form.strides[tensor][d] * p[d];
      return offset;
    };
    int64_t m = p[batch], n = p[batch + 1], k = p[batch + 2];
    result.at(at(Result, m, n)) += a.at(at(Lhs, m, k)) * b.at(at(Rhs, k, n));
  });
  return result;
}

Data ramp(int64_t count, int64_t step) {
  Data data(count);
  for (int64_t i = 0; i < count; ++i)
    data[i] = (i * step) % 17 - 8;
  return data;
}

void expectEquivalent(const Einsum &einsum, const MatmulForm &form) {
  Data lhs = ramp(einsum.elements(Lhs), 5), rhs = ramp(einsum.elements(Rhs), 7);
  EXPECT_EQ(execute(form, lhs, rhs, einsum.elements(Result)), reference(einsum, lhs, rhs));
}

/// The innermost stride of the result and one of each operand are 1, as the
/// library's fast paths want.
void expectPlain(const MatmulForm &form) {
  size_t batch = form.batch.size();
  auto unit = [&](Tensor tensor, size_t dim) { return form.strides[tensor][batch + dim] == 1; };
  EXPECT_TRUE(unit(Lhs, 0) || unit(Lhs, 1));
  EXPECT_TRUE(unit(Rhs, 0) || unit(Rhs, 1));
  EXPECT_TRUE(unit(Result, 1));
}

TEST(MatmulForm, LinearMergesLeadingDimensions) {
  Einsum linear{{2, 3, 5, 4}, {{{0, 1, 2}, {2, 3}, {0, 1, 3}}}};
  auto form = formMatmul(linear.indices(), kMaxRank);
  ASSERT_TRUE(form);
  EXPECT_TRUE(form->batch.empty());
  EXPECT_EQ(form->m, 6);
  EXPECT_FALSE(form->swapped);
  expectEquivalent(linear, *form);
}

TEST(MatmulForm, WeightGradientContractsOverMergedDimensions) {
  Einsum gradient{{2, 3, 5, 4}, {{{0, 1, 2}, {0, 1, 3}, {2, 3}}}};
  auto form = formMatmul(gradient.indices(), kMaxRank);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->k, 6);
  expectEquivalent(gradient, *form);
}

TEST(MatmulForm, TransposedResultSwapsTheOperands) {
  Einsum transposed{{3, 4, 5}, {{{0, 2}, {2, 1}, {1, 0}}}};
  auto form = formMatmul(transposed.indices(), kMaxRank);
  ASSERT_TRUE(form);
  EXPECT_TRUE(form->swapped);
  EXPECT_EQ(form->strides[Result], (std::vector<int64_t>{3, 1}));
  expectEquivalent(transposed, *form);
}

TEST(MatmulForm, AttentionScoresKeepHeadsAsBatch) {
  // q[b,s,h,e] k[b,t,h,e] -> p[b,h,s,t]
  Einsum scores{{2, 3, 4, 5, 6}, {{{0, 1, 3, 4}, {0, 2, 3, 4}, {0, 3, 1, 2}}}};
  auto form = formMatmul(scores.indices(), kMaxRank);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->batch, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(form->m, 3);
  EXPECT_EQ(form->n, 4);
  expectEquivalent(scores, *form);
}

TEST(MatmulForm, GroupedQueryRepeatsKeysAlongABatchDimension) {
  // q[b,s,g,r,e] k[b,t,g,e] -> p[b,g,r,s,t]
  Einsum scores{{2, 3, 4, 2, 3, 5}, {{{0, 1, 3, 4, 5}, {0, 2, 3, 5}, {0, 3, 4, 1, 2}}}};
  auto form = formMatmul(scores.indices(), kMaxRank);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->batch, (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(form->strides[Rhs][2], 0);
  expectEquivalent(scores, *form);
}

TEST(MatmulForm, SumsThatDontMergeHaveNone) {
  // dk[b,t,g,e] = p[b,g,r,s,t] q[b,s,g,r,e]: r and s are in different orders
  Einsum gradient{{2, 3, 4, 2, 3, 5}, {{{0, 3, 4, 1, 2}, {0, 1, 3, 4, 5}, {0, 2, 3, 5}}}};
  EXPECT_FALSE(formMatmul(gradient.indices(), kMaxRank));
}

TEST(MatmulForm, InnermostBatchHasNone) {
  Einsum inner{{3, 4, 5, 2}, {{{3, 0, 2}, {3, 2, 1}, {0, 1, 3}}}};
  EXPECT_FALSE(formMatmul(inner.indices(), kMaxRank));
}

TEST(MatmulForm, TensorsOfMoreDimensionsThanTheTargetTakesHaveNone) {
  // Batch and head stay apart: q and k have them in other orders.
  Einsum scores{{2, 3, 4, 5, 6}, {{{0, 2, 1, 4}, {0, 3, 1, 4}, {0, 1, 2, 3}}}};
  EXPECT_TRUE(formMatmul(scores.indices(), 4));
  EXPECT_FALSE(formMatmul(scores.indices(), 3));
}

TEST(MatmulForm, RandomFormsComputeTheSame) {
  std::mt19937 generator(1);
  int64_t formed = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Einsum einsum;
    size_t count = 1 + generator() % 6;
    for (size_t i = 0; i < count; ++i) {
      einsum.sizes.push_back(1 + generator() % 4);
      size_t absent = generator() % 4; // from lhs, rhs, result or none
      for (size_t tensor = 0; tensor < 3; ++tensor)
        if (tensor != absent)
          einsum.tensors[tensor].push_back(static_cast<int>(i));
    }
    for (std::vector<int> &tensor : einsum.tensors)
      if (generator() % 2)
        std::shuffle(tensor.begin(), tensor.end(), generator);
    auto form = formMatmul(einsum.indices(), kMaxRank);
    if (!form)
      continue;
    ++formed;
    expectEquivalent(einsum, *form);
    expectPlain(*form);
  }
  EXPECT_GT(formed, 500);
}

} // namespace
