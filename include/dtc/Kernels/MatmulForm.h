// A contraction of strided operands as one batched matrix product.
//
// An index of a contraction is one of four kinds, by the tensors it appears in:
//
//   batch: lhs, rhs, result    m: lhs, result    n: rhs, result    k: lhs, rhs
//
// A library product has several batch dimensions but one m, one n, one k. Neighbouring indices of a
// kind are one dimension where the strides of every tensor agree. Those of m and n that stay over
// become batch dimensions, along which the other operand repeats (stride 0).
//
//   x[b,s,k] w[k,n] -> y[b,s,n]          m = (b s), n, k
//   q[b,s,h,e] k[b,t,h,e] -> p[b,h,s,t]  batch = b, h;  m = s, n = t, k = e
//
// Where the innermost dimension of the result is an m index, the operands change places, which
// transposes the result. Three things have no form. An operand may have gaps in both of its matrix
// dimensions. The k indices may not merge. The result's innermost dimension may be a batch index.
// The caller then copies a tensor into an order that has one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace dtc::kernels {

enum Tensor : uint8_t { Lhs, Rhs, Result };

struct ContractionIndex {
  int64_t size = 1;
  /// In elements, of lhs, rhs and result; none where the index does not appear.
  std::array<std::optional<int64_t>, 3> strides;
};

struct MatmulForm {
  std::vector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  /// [batch..., m, k], [batch..., k, n], [batch..., m, n]; 0 repeats.
  std::array<std::vector<int64_t>, 3> strides;
  bool swapped = false; ///< lhs and rhs have changed places
};

/// Has neighbours be one index where they lie side by side in each tensor that has them. All have a
/// stride in `order`, the outermost comes first.
std::vector<ContractionIndex> mergeNeighbours(std::vector<ContractionIndex> indices, Tensor order);

/// The form of a contraction whose tensors have at most `maxRank` dimensions; none if it has
/// none. Indices of size 1 are ignored.
std::optional<MatmulForm> formMatmul(const std::vector<ContractionIndex> &indices,
                                     size_t maxRank);

} // namespace dtc::kernels
