// The @forward function of an imported model, from its arguments to its results.
//
//   Forward forward(context, file);
//   forward.declare(tensors, inputs, budget, values)   arguments, and constants into `values`
//   ... convert the file's operators with an emitter at forward.end() ...
//   forward.finish(outputs, changes)                   results
//   forward.raise(inputs, samples, nodes)              the passes that every importer runs
#pragma once

#include "dtc/Import/Build/Conversion.h"
#include "dtc/Import/Build/FileTensor.h"
#include "dtc/Import/Build/Inputs.h"
#include "dtc/Raise/FollowBatch.h"

#include "llvm/ADT/StringMap.h"

namespace dtc::import {

/// An output of the file. It may have been found to be a sequence, or not at all.
struct FileOutput {
  std::string name;
  const Tensor *tensor;
};

/// A buffer of the file, and its value after the function.
struct BufferChange {
  std::string buffer;
  const Tensor *tensor;
};

class Forward {
public:
  /// Errors are diagnostics at `file`.
  Forward(mlir::MLIRContext &context, mlir::Location file);

  /// Parameters, buffers and inputs become arguments; these and constants become `values`.
  llvm::LogicalResult declare(const std::vector<FileTensor> &tensors, const BoundInputs &inputs,
                              Budget &budget, llvm::StringMap<Tensor> &values);
  /// Where operators are converted.
  Emitter end();
  llvm::LogicalResult finish(llvm::ArrayRef<FileOutput> outputs,
                             llvm::ArrayRef<BufferChange> changes);
  /// --padding-idx, for files that don't say which row of an embedding gets no gradient.
  llvm::LogicalResult markPaddingRows(const std::map<std::string, int64_t> &rows);
  /// The model, raised and brought to the samples of a call.
  llvm::FailureOr<ImportedModel> raise(const BoundInputs &inputs, std::optional<Samples> samples,
                                       int64_t nodes);

private:
  llvm::FailureOr<mlir::Value> changed(const BufferChange &change);
  graph::RoleAttr role(graph::RoleKind kind, llvm::StringRef name);

  /// Brings outputs into the form that dtc-run takes: samples first, or a first dimension of 1
  /// without any.
  llvm::LogicalResult putSamplesFirst(llvm::ArrayRef<FileOutput> outputs,
                                      llvm::SmallVectorImpl<mlir::Value> &results);

  mlir::MLIRContext &context;
  mlir::Location file;
  ImportedModel model;
  mlir::func::FuncOp func;
};

} // namespace dtc::import
