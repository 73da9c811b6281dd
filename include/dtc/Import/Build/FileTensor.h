// What each tensor of a model file is to training: a parameter, a buffer, a constant.
#pragma once

#include "dtc/Import/ImportedModel.h"
#include "dtc/Weights/WeightStore.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"

#include <string>
#include <vector>

namespace dtc::import {

enum class TensorKind { Parameter, Buffer, Constant };

/// A tensor that the file stores, or names as a weight without data.
struct FileTensor {
  std::string name;
  mlir::Type element;
  Weight weight;
  TensorKind kind = TensorKind::Parameter;
  bool kindRecorded = false; ///< by PyTorch's exporter
  bool trainable = false;
  std::vector<std::string> aliases; ///< further names of the same (tied) tensor
};

/// --freeze and --train. `file` is named in errors.
mlir::LogicalResult applyPatterns(mlir::Location file, const ImportOptions &options,
                                  std::vector<FileTensor> &tensors);

/// Bytes of one element in a file (a boolean takes one).
int64_t elementBytes(mlir::Type type);

/// The name of the type in a safetensors file, "F32", "I64", "BOOL", ...
std::string safetensorsName(mlir::Type type);

/// What is wrong with the sizes that a file states for a tensor; empty where nothing is.
std::string describeBadShape(llvm::ArrayRef<int64_t> shape);

} // namespace dtc::import
