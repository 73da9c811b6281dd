// What collectives say of their groups, whichever collective it is.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

namespace dtc::dist {

/// The axes along which the ranks of a group differ; null of an op that isn't a collective.
AxesAttr axesOf(mlir::Operation *op);
/// The mesh that has these axes; likewise.
mlir::FlatSymbolRefAttr meshOf(mlir::Operation *op);

} // namespace dtc::dist
