// The first elements of a function's results, computed from no more than these need.
//
// Sharding rules say which dimensions an op may be cut along. So of logits [8, 2048, 32000] the
// corner [1, 4, 4] needs the first rows of what a causal model computes in all of its layers:
//
//   %y = dtc.contract %x, %w       [8, 2048, 512] x [512, 512]
//   becomes                        [1, 4, 512]    x [512, 512]
//
// What an op can't be cut along stays whole, as the keys of attention that isn't causal.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dtc::interpreter {

/// A module with a function that computes one sample of `function`'s results, and the first `most`
/// elements along all other dimensions. Parameters and buffers are arguments as they were, inputs
/// have what is needed of them. Nothing is dropped at random. Null where an op has no rule.
mlir::OwningOpRef<mlir::ModuleOp> cornerOf(mlir::func::FuncOp function, int64_t most);

} // namespace dtc::interpreter
