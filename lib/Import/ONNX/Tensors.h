// Element types and the bytes of tensors stored in or beside an ONNX file.
#pragma once

#include "Model.h"
#include "dtc-io/InputFile.h"
#include "dtc/Import/Build/FileTensor.h"

#include "mlir/IR/BuiltinTypes.h"

#include <map>

namespace dtc::import {

/// The MLIR element type of an ONNX data type, null when there is none here.
/// Unsigned integers keep their sign in the type; they exist only as constants.
mlir::Type elementType(mlir::MLIRContext *context, int32_t dataType);

/// A diagnostic about `what` where the sizes that a file states for it are bad.
llvm::LogicalResult checkShape(const Model &model, llvm::ArrayRef<int64_t> shape,
                               const llvm::Twine &what);

/// Finds the bytes of initializers. External data is mapped, never read whole. The location must be
/// a plain file below the model's folder, and the ranges of different tensors may not overlap.
class TensorReader {
public:
  explicit TensorReader(const Model &model) : model(model) {}

  const Model &model;

  /// Shape, type and bytes of a tensor.
  llvm::FailureOr<Weight> read(const onnx::TensorProto &tensor);

  /// Reports external ranges that overlap. To be called once all are read.
  llvm::LogicalResult checkOverlaps();

private:
  struct Range {
    std::string file, name;
    uint64_t begin, end;
  };

  llvm::LogicalResult readInline(const onnx::TensorProto &tensor, mlir::Type type,
                                 Weight &weight);
  llvm::LogicalResult readExternal(const onnx::TensorProto &tensor, Weight &weight);
  llvm::FailureOr<io::MappedFile> map(const std::string &location, const std::string &tensor);

  std::map<std::string, io::MappedFile> files;
  std::vector<Range> ranges;
};

} // namespace dtc::import
