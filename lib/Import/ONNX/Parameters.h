// What each tensor of an ONNX file is to training.
#pragma once

#include "Tensors.h"
#include "dtc/Import/Build/FileTensor.h"
#include "dtc/Import/ImportedModel.h"

#include "llvm/ADT/StringMap.h"

namespace dtc::import {

/// The tensors on which the outputs depend, in the file's order, with kinds
/// decided. Reports merged initializers (an error when training).
mlir::FailureOr<std::vector<FileTensor>> classifyTensors(const Model &model,
                                                         const ImportOptions &options,
                                                         const llvm::StringMap<bool> &live,
                                                         TensorReader &reader);

/// The kind PyTorch's exporter recorded for a value ("PARAMETER", "BUFFER",
/// "USER_INPUT"), or an empty string.
std::string recordedKind(const onnx::ValueInfoProto &info);

/// Names of the file's initializers.
llvm::StringMap<const onnx::TensorProto *> initializers(const Model &model);

} // namespace dtc::import
