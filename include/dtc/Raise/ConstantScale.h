// Numbers that a value is multiplied by.
#pragma once

#include "mlir/IR/Value.h"

namespace dtc::raise {

/// A constant factor of the value, through ops that only move elements. It is 1 where there is
/// none.
double scaleOf(mlir::Value value);

} // namespace dtc::raise
