// ZeRO: what a plan stores divided over data-parallel ranks (dist.storage).
//
// A parameter's shard, its gradient, and its states and master may each be divided over axes,
// flattened (FlatForm.h). Partitioning first makes functions on whole shards. Then, for a
// parameter w of 4x4 on <dp=2> whose update alone is divided (ZeRO-1),
//
//   @update(%w: 4x4, %m, %v: 4x4, %g: 4x4, sum = {"dp"})
//     %s = dist.all_reduce sum %g              all ranks have all of the gradient
//     %w1, %m1, %v1 = dtc.adam_update %w, %s, %m, %v
//
// becomes
//
//   @update(%w: 4x4, %m, %v: 8, %g: 4x4, sum = {"dp"})
//     %s = dist.reduce_scatter sum (%g flattened)           8 elements of the sum
//     %p = dist.slice (%w flattened)
//     %p1, %m1, %v1 = dtc.adam_update %p, %s, %m, %v
//     %w1 = dist.all_gather %p1, as 4x4
//
// The norm is that of all parts: sums of squares are pending over dp, and reduced once. Where
// gradients are divided (ZeRO-2), @loss_and_grads scatters them before it adds them up. Where
// parameters are (ZeRO-3), it gathers them before their first use in the forward pass, and again
// for the backward pass. A barrier keeps the two apart, so that the first can be freed.
#pragma once

#include "Reshard.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::partition {

/// Carries out dist.storage of a module's partitioned functions.
mlir::LogicalResult realizeStorage(mlir::ModuleOp module, const NamedMesh &mesh);

} // namespace dtc::partition
