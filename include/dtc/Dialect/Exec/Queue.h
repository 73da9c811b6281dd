// What carries out ops in their order, beside other queues.
//
// Collectives along the same axes share a queue, so that they come in one order on all ranks of
// their group. Those along other axes don't wait for them:
//
//     %s = dist.reduce_scatter sum %g dim 0 on @mesh {"dp"} {exec.queue = #exec.queue<collective>}
//     %y = dist.all_reduce sum %x on @mesh {"tp"} {exec.queue = #exec.queue<collective>}
//
// One that reads what another makes begins behind it, without an exec.wait.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::exec {

struct Queue {
  QueueKind kind = QueueKind::Compute;
  dist::AxesAttr axes; ///< of a queue for collectives

  /// That of exec.queue, or the one that computes.
  static Queue of(mlir::Operation *op);
  bool operator==(const Queue &) const = default;
};

} // namespace dtc::exec
