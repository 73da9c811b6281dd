// What an exporter did to a module's weights on the way into the file.
#pragma once

#include "Parameters.h"
#include "Readers.h"

namespace dtc::import {

/// Refuses to train tensors that an exporter merged because they were equal, and those into which
/// it folded weights where it recorded which are parameters. Warns of what else training would
/// not do as the module does: batch norm that was folded, or that keeps its statistics. Where
/// nothing is trained, merged tensors are a warning, and these don't matter. A copy of a weight
/// that may be tied to it is warned of always: there are more parameters than in the module.
mlir::LogicalResult checkExporterChanges(const Model &model, const ImportOptions &options,
                                         const Readers &readers, const llvm::StringMap<bool> &live,
                                         llvm::ArrayRef<FileTensor> tensors);

/// Whether PyTorch's older exporter computed the tensor from others, by its name.
bool isComputed(llvm::StringRef name);

/// The targets of the exported program's signature that are parameters.
std::vector<std::string> signatureParameters(const Model &model);

} // namespace dtc::import
