// A grouped contraction as matrix products, each with the matrix of an expert.
//
// Rows that chose the same expert are in tiles, of which each has one choice:
//
//   x[b,t,r,d] w[e,f,d] -> y[b,t,r,f]  by choices[b,t]    batch = b, t; m = r, n = f, k = d
//   y[b,t,r,f] x[b,t,r,d] -> w[e,f,d]  by choices[b,t]    batch = b, t; m = f, n = d, k = r
//
// An index is of the batch where choices have it. Others are m, n or k, as in MatmulForm.h. Several
// of a kind are one where they lie side by side in each tensor that has them. A contraction whose
// rows choose one by one has no such form.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <array>
#include <optional>

namespace dtc::kernels {

struct GroupedForm {
  llvm::SmallVector<int64_t> batch; ///< sizes, in the order of the choices' dimensions
  int64_t m = 1, n = 1, k = 1;
  /// Of lhs, rhs and result: [batch..., m, k], [batch..., k, n], [batch..., m, n].
  std::array<llvm::SmallVector<int64_t>, 3> strides;
  std::array<int64_t, 3> experts{}; ///< strides from one expert to the next; 0: it has none
  bool swapped = false;             ///< lhs and rhs have changed places, so that n lies innermost
};

std::optional<GroupedForm> groupedForm(graph::GroupedContractOp op);

} // namespace dtc::kernels
