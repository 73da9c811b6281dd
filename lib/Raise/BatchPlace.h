// Where the batch lies in a tensor, and how an op's rule carries it to another.
#pragma once

#include "dtc/Raise/Emit.h"
#include "dtc/Sharding/Rule.h"

namespace dtc::raise {

/// A dimension that contains the batch: its size is outer * batch * inner,
/// row-major. [b,s] merged into one dimension has the batch at outer 1, inner s.
struct BatchPlace {
  int64_t dim = 0;
  int64_t outer = 1, inner = 1;
  bool operator==(const BatchPlace &) const = default;
};

/// The batch of a tensor of shape `from` at `place`, found in the same elements
/// under shape `to`. A batch of one takes the first dimension of size 1 at its
/// position. Nothing when no single dimension of `to` contains the batch.
std::optional<BatchPlace> moveThroughReshape(const BatchPlace &place, llvm::ArrayRef<int64_t> from,
                                             llvm::ArrayRef<int64_t> to, int64_t batch);

/// Which factor of a dimension holds the batch, and where in it.
struct BatchFactor {
  sharding::FactorId factor = -1;
  int64_t outer = 1, inner = 1;
  bool operator==(const BatchFactor &) const = default;
};
std::optional<BatchFactor> factorOf(const sharding::ShardingRule &rule,
                                    const sharding::TensorFactors &dims, const BatchPlace &place,
                                    int64_t batch);
/// The dimension of a tensor that the factor is in, if any.
std::optional<BatchPlace> placeOf(const sharding::ShardingRule &rule,
                                  const sharding::TensorFactors &dims, const BatchFactor &factor);

/// Visits the ops in their order, and in the reverse one if asked to, until no visit has set
/// `changed`.
llvm::LogicalResult
visitUntilSettled(llvm::ArrayRef<mlir::Operation *> ops, bool &changed, bool backwards,
                  llvm::function_ref<llvm::LogicalResult(mlir::Operation *)> visit);

} // namespace dtc::raise
