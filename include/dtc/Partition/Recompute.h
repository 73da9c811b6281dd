// What a plan computes again, as ops of the backward pass.
//
// The plan's blocks are in the IR as `dist.recompute` on forward ops. Of a block y = g(f(x)) with
// parameters w and v
//
//   %f = dtc.contract %x, %w     {dist.recompute = #dist.recompute<full, 0>, dtc.id = 4}
//   %g = math.tanh %f            {dist.recompute = #dist.recompute<full, 0>, dtc.id = 5}
//   ...
//   %df = ... %dg, %f            {dtc.backward = #dtc.backward<5, input_grad>}
//   %dw = dtc.contract %x, %df   {dtc.backward = #dtc.backward<4, weight_grad>}
//
// the backward pass needs f(x), but g(f(x)) only if it reads that, too:
//
//   %b = dtc.barrier %x          {dtc.backward = #dtc.backward<5, recompute>}
//   %r = dtc.contract %b, %w     {dtc.backward = #dtc.backward<4, recompute>}
//   %df = ... %dg, %r
//   %dw = dtc.contract %b, %df
//
// So x alone is kept. The barrier keeps the contractions two, and its place keeps the second behind
// the gradients of later blocks. Views of what comes from outside the block are taken again, too,
// so that what they are views of is kept. What depends on no parameter (masks, positions) isn't
// computed again.
//
// A selective block computes again what its attention keeps inside. The gradient of attention reads
// queries and keys behind barriers, so that it shares no scores with the forward pass.
//
// Ops are cloned with their shardings before they are partitioned. Collectives of the block are so
// made again, as the planner prices them (dtc/Plan/Predict/Recomputation.h).
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace dtc::partition {

/// Clones what `dist.recompute` asks for in all functions of a module, and takes that attribute
/// away.
mlir::LogicalResult recompute(mlir::ModuleOp module);

} // namespace dtc::partition
