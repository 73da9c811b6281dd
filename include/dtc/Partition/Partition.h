// From global shapes and shardings to the program of one rank.
//
// A row-parallel product on <tp=2>, its contracted dimension split:
//
//   func @f(%x: tensor<8x64xf32> {[{}, {"tp"}]}, %w: tensor<64x16xf32> {[{"tp"}, {}]})
//     %y = dtc.contract %x, %w {dist.op = [{}, {"tp"}, {}]} -> tensor<8x16xf32>
//     %z = math.tanh %y
//
// becomes
//
//   func @f(%x: tensor<8x32xf32>, %w: tensor<32x16xf32>) attributes {dist.local}
//     %y = dtc.contract %x, %w -> tensor<8x16xf32>
//     %s = dist.all_reduce sum %y on @mesh {"tp"}
//     %z = math.tanh %s
//
// An op without dist.op follows its operands (sharding::follow). What an op
// needs otherwise than it is there is resharded once, however many ops ask.
//
// Sums stay pending as long as what reads them is linear. Those of gradients and of the loss even
// leave the function. The result's dist.sharding then has `sum`. So has the argument of the same
// role and name of every other function. @update resolves it, once a step, in buckets.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>

namespace dtc::partition {

struct PartitionOptions {
  /// Pending reductions are packed into calls of about this many bytes.
  int64_t bucketBytes = 25 << 20;
  /// What the forward pass gathered is gathered again for the backward pass, instead of kept.
  bool regather = false;
};

/// Rewrites every function of a module with one dist.mesh. Afterwards the
/// functions are dist.local and all their arguments and results say by
/// dist.sharding which shard they are.
mlir::LogicalResult partition(mlir::ModuleOp module, const PartitionOptions &options = {});

/// Refuses a module that is not what `partition` promises. It finds global functions or dist.op
/// left over, and pending results other than gradients and loss. It finds one role and name that is
/// sharded in two ways. It also finds a missing reduction: a result that ranks holding copies would
/// disagree on.
mlir::LogicalResult verifyPartition(mlir::ModuleOp module);

} // namespace dtc::partition
