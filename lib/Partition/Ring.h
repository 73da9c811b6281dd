// Attention whose keys and values go round the ranks (Sharding/Ring.h), step by step.
//
// On <cp=2>, forward and, with the results of all steps, backward:
//
//   %o0, %l0 = dtc.attention %q, %k, %v          its own keys
//   %k1 = dist.permute %k from [1, 0]            those of the rank before
//   %o1, %l1 = dtc.attention %q, %k1, %v1
//   %o, %lse = the two merged
//
// What is on its way is there before a step and arrives beside it. Under a causal mask a rank sees
// its own keys up to the query's. It sees all or nothing of another rank's, where parts are those
// of one sequence in order. What is hidden is computed all the same: the last rank sees everything,
// and the others would only wait for it.
//
// Where parts are in zig-zag (Zigzag.h), half of what a later step could compute is seen, on every
// rank. Of chunks q0, q1 and k0, k1, a rank sees
//
//   k of a rank before it       q0 k0   q1 k0
//   k of a rank behind it               q1 k0   q1 k1
//
// So a step computes the middle one, and one that it selects by its position. Nothing is hidden.
//
// The backward pass passes keys and values on once more. With them go the gradients of those that
// each rank had, which come home after the last step.
#pragma once

#include "Reshard.h"

namespace dtc::partition {

/// Builds attention, or its gradients, from the shards of its operands. Its own keys lie where its
/// queries do.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildRing(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
          const NamedMesh &mesh, const sharding::AxisList &axes);

/// Whether the plan's choice for `op` is a ring.
bool goesRound(mlir::Operation *op);

} // namespace dtc::partition
