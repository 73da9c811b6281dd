// What each tensor of the file is to training: a parameter, a buffer, a constant.
#pragma once

#include "Tensors.h"
#include "dtc/Import/ImportedModel.h"

#include "llvm/ADT/StringMap.h"

namespace dtc::import {

enum class TensorKind { Parameter, Buffer, Constant };

/// An initializer, or a graph input that stands for a weight without data.
struct FileTensor {
  std::string name;
  mlir::Type element;
  Weight weight;
  TensorKind kind = TensorKind::Parameter;
  bool kindRecorded = false; ///< by PyTorch's exporter
  bool trainable = false;
  std::vector<std::string> aliases; ///< further names of the same (tied) tensor
};

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
