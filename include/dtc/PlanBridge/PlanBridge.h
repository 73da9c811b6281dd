// The one place that sees both the IR and plans.
//
// A product on <dp=2>, before and after `apply`, and the problem between the two:
//
//   %y = dtc.contract %x, %w {dtc.id = 7}                               as `extract` finds it
//
//   op 0 contract, values (0, 1) -> (2), factors b k n; plan: b by {"dp"}
//
//   dist.mesh @mesh <dp=2>                                              as `apply` leaves it
//   %y = dtc.contract %x, %w {dtc.id = 7, dist.op = [{"dp"}, {}, {}]}
#pragma once

#include "dtc/Plan/Search/Search.h"
#include "dtc/Plan/Plan/Verify.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace dtc::planbridge {

/// What the program of a target makes of an op, which decides its price.
struct OpForms {
  using Predicate = llvm::function_ref<bool(mlir::Operation *)>;
  Predicate staysWhole = {}; ///< Target::staysWhole
  /// Target::attentionWorkspace, of attention that stays whole.
  llvm::function_ref<sharding::AttentionWorkspace(mlir::Operation *)> attentionWorkspace = {};
  Predicate isPartOfProduct = {}; ///< kernels::isPartOfProduct
  int64_t attentionAlignment = 0; ///< Target::attentionAlignment
  Predicate isWidened = {};       ///< kernels::isWidened
};

/// Reads the problem off @loss_and_grads (or, where there is none, @forward)
/// and @update. Ops of the problem are the function's ops in order, without
/// the return. Where `forms` is silent, attention is whole and reads whole tensors, and ops are
/// no parts of products nor widened.
mlir::FailureOr<plan::Problem> extract(mlir::ModuleOp module, const OpForms &forms = {});

/// Writes a plan into the module. It makes a `dist.mesh @mesh`, `dist.sharding` on arguments and
/// results of all functions, by role and name, and `dist.op` on the ops. The plan was verified.
/// What carries gradients gets its parameter's sharding; which sums stay pending on top,
/// partitioning finds out. A dtc.sum's `dist.op` says how the total is laid out: terms laid out
/// alike are added before they are brought there. What the plan says of stages, storage and
/// recomputation is written too (DistBase.td). Where stages have meshes of their own, the module
/// has the sharding on the first one, and modules inside have it on the others
/// (dtc/Stages/Stages.h).
mlir::LogicalResult apply(mlir::ModuleOp module, const plan::Problem &problem,
                          const plan::Plan &plan);

/// Verifies a plan; the first violation becomes an error at the op it concerns.
mlir::LogicalResult verify(mlir::ModuleOp module, const plan::Problem &problem,
                           const plan::Plan &plan, const plan::Cluster &cluster);

} // namespace dtc::planbridge
