// The `exec` dialect: what a rank executes.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

#include "dtc/Dialect/Exec/ExecDialect.h.inc"

#include "dtc/Dialect/Exec/ExecEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dtc/Dialect/Exec/ExecAttrs.h.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Exec/ExecOps.h.inc"

namespace dtc::exec {

/// The queue that carries out an op: exec.queue, or the one that computes.
QueueKind queueOf(mlir::Operation *op);
inline bool isStarted(mlir::Operation *op) { return queueOf(op) != QueueKind::Compute; }

/// The op that a value in flight was started by; null for a value that is there. Waiting for it
/// is the business of its users (exec.wait).
mlir::Operation *startedBy(mlir::Value value);

/// True for reshapes, barriers and waits: there is nothing to carry out, and the result is the
/// operand in its buffer.
bool isView(mlir::Operation *op);

/// The value that a value is a view of, through all of them.
mlir::Value bufferRoot(mlir::Value value);

} // namespace dtc::exec
