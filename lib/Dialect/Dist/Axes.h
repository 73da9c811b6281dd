// The assembly of a list of axes, shared by attributes and ops.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "mlir/IR/OpImplementation.h"

namespace dtc::dist {

/// `{"dp", "tp"}`
mlir::ParseResult parseAxes(mlir::AsmParser &parser, AxesAttr &axes);
void printAxes(mlir::AsmPrinter &printer, AxesAttr axes);
void printAxes(mlir::AsmPrinter &printer, mlir::Operation *op, AxesAttr axes);

} // namespace dtc::dist
