// What an op is, as numbers to look it up by.
#pragma once

#include "mlir/IR/Operation.h"

#include <vector>

namespace dtc::graph {

/// Appends the attributes that an op's kind gives it, and not those that are attached to it. They
/// are unique in a context, so that equal ones are the same number.
void appendOwnAttributes(mlir::Operation *op, std::vector<uintptr_t> &key);

} // namespace dtc::graph
