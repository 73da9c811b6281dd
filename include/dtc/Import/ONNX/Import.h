// ONNX in, `dtc` module out.
#pragma once

#include "dtc/Import/ImportedModel.h"

namespace dtc::import {

/// Reads the model at options.path. What it gives has a @forward with one argument per parameter,
/// buffer and input, and one result per output, each with a #dtc.role. The graph is raised
/// (attention, norms, ... are single ops), un-flattened and rebatched. Errors are diagnostics of
/// the context.
mlir::FailureOr<std::unique_ptr<ModelFile>> openONNX(mlir::MLIRContext &context,
                                                     const ImportOptions &options);

} // namespace dtc::import
