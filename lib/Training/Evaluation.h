// What the calls of a step do where they evaluate, as PyTorch's model.eval(): batch norms take
// their running statistics, and buffers stay as they are. Dropout needs nothing of this, as
// it keeps all of a sample that has the key for that.
#pragma once

#include "PhaseFunction.h"

namespace dtc::training {

/// What replaces a buffer.
using BufferChange = std::pair<mlir::Value, graph::RoleAttr>;

/// Adds the scalar that has a function evaluate. It adds none where a buffer changes otherwise than
/// by a batch norm or a count of batches: what eval() would do with that isn't known.
void addEvaluation(PhaseFunction &function, llvm::MutableArrayRef<BufferChange> changes,
                   llvm::ArrayRef<mlir::Value> outcomes);

} // namespace dtc::training
