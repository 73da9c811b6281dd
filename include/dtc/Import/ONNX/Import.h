// ONNX in, `dtc` module out.
#pragma once

#include "dtc/Import/ImportedModel.h"

namespace dtc::import {

/// Reads the model at options.path. @forward has one argument per parameter,
/// buffer and input, and one result per output, each with a #dtc.role; the
/// graph is raised (attention, norms, ... are single ops), un-flattened and
/// rebatched to options.batch. Errors are diagnostics of the context that
/// name the file and, where there is one, the node.
mlir::FailureOr<ImportedModel> importONNX(mlir::MLIRContext &context, const ImportOptions &options);

} // namespace dtc::import
