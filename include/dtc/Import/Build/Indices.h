// Indices of gathers: constants, values of the graph, inputs.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// Constant indices with negative ones counted from the end; null with a
/// diagnostic where one is out of range.
Host normalizeIndices(Conversion &node, const Host &indices, int64_t size);

/// A gather at constant indices: only their distinct part is looked up, as a
/// slice where it is evenly spaced, and then repeated.
mlir::Value gatherAtConstants(Emitter &emit, mlir::Value table, const HostTensor &indices,
                              int64_t axis);

/// Indices into a dimension of `size`, and where they are inside of it; null where nothing needs
/// to be checked in the graph.
struct RunTimeIndices {
  mlir::Value at, inside;
};

/// Computed indices count from the end where they are negative, as ONNX has it. Those of inputs
/// never do: exports of embeddings would look up other rows than PyTorch, which refuses them. No
/// integer says that something was looked up outside. So there is a diagnostic where `element`, the
/// table's type, is an integer and the computed indices may be there.
mlir::FailureOr<RunTimeIndices> runTimeIndices(Conversion &node, mlir::Value indices,
                                               mlir::Type element, int64_t size);

/// The same for positions that are written to: dtc-run doesn't know those of inputs, so that these
/// are checked and counted from the end, too.
mlir::FailureOr<RunTimeIndices> computedIndices(Conversion &node, mlir::Value indices,
                                                mlir::Type element, int64_t size);

/// What was looked up outside is no number, so that the step is reported as not finite. `dims`
/// are the indices' dimensions in `found`.
mlir::Value refuseOutside(Emitter &emit, mlir::Value found, const RunTimeIndices &indices,
                          llvm::ArrayRef<int64_t> dims);

} // namespace dtc::import
