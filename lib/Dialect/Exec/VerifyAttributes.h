// What the dialect asks of its attributes on ops of other dialects.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::exec {

mlir::LogicalResult verifyLastOf(mlir::Operation *op, mlir::Attribute attribute);
mlir::LogicalResult verifyPart(mlir::Operation *op, mlir::Attribute attribute);

} // namespace dtc::exec
