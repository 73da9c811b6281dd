// A small step with the structure of a large one, on which a plan is verified in seconds.
//
// Of a planned module the twin has the same ops, shardings, stages, storage and recomputation; its
// dimensions and mesh axes are smaller. A layer of width 16,384 on <dp=16, tp=8>
//
//   %y = dtc.contract %x, %w {dist.op = [{"dp"}, {"tp"}, {}]} : tensor<16x16384x53248xbf16> ...
//   on <dp=2, tp=2>                                           : tensor<2x8x8xbf16> ...
//
// Dimensions that ops tie together are one class, found by the ops' sharding rules, and are scaled
// alike. A class keeps a few elements a rank, so that what is split stays split. It keeps its size
// where something counts in it: windows of convolutions, experts, tables that are not looked up by
// an input. Numbers that counts are compared with, as the tokens that an expert takes, are scaled
// as what is counted (dtc/Dialect/Graph/CountLimits.h). An axis becomes its smallest prime factor.
// Where kernels are compared, too, heads of attention stay such that libraries take them.
// Where stages have meshes of their own, axes of one name that differ go on to differ: dp=4 and
// dp=16 become dp=2 and dp=4. All axes keep their sizes where the small ones don't fit dimensions
// that stay.
//
// What the twin proves is the partitioned program's structure: every sum, gather and message that a
// plan needs. It says nothing of offsets that depend on true sizes; those the replay checks.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace dtc::twin {

struct Twin {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< null: `reason` says why there is none
  std::string reason;
  std::string mesh;         ///< "dp=2 tp=2", "dp=2 pp=1 and tp=2 pp=2"
  int64_t microbatches = 1; ///< of its step
  double shrinkage = 1;     ///< bytes of all its arguments over those of the plan's
};

/// `planned`: with a plan written into it (dtc/PlanBridge/PlanBridge.h); it isn't changed.
/// `headMultiple`: heads of attention whose sizes are multiples of it stay so, so that libraries
/// which need that take attention of the twin as they take the plan's.
Twin makeTwin(mlir::ModuleOp planned, int64_t microbatches, int64_t headMultiple = 1);

} // namespace dtc::twin
