// PyTorch programs in, `dtc` module out.
#pragma once

#include "dtc/Import/ImportedModel.h"

namespace dtc::import {

/// Whether the file is an archive as torch.export.save or torch.jit.save writes it, by its content.
bool isExportedProgram(const std::string &path);

/// The names of all operators that are read, without overloads: "aten.add". Those that PyTorch has
/// under a second name are listed by the first.
std::vector<std::string> atenOperators();

/// Reads the archive at options.path; one of torch.jit.save with the shapes in options. What it
/// gives is as openONNX (Import/ONNX/Import.h) says.
mlir::FailureOr<std::unique_ptr<ModelFile>> openExportedProgram(mlir::MLIRContext &context,
                                                                const ImportOptions &options);

} // namespace dtc::import
