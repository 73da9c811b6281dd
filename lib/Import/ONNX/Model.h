// An ONNX file in memory: parsed, checked, functions inlined.
#pragma once

#include "dtc/Import/Build/Budget.h"
#include "onnx-ml.pb.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/LogicalResult.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc::import {

/// The messages live in one arena, which weights keep alive as their owner.
struct Model {
  std::string path;
  std::shared_ptr<google::protobuf::Arena> arena;
  onnx::ModelProto *proto = nullptr;
  std::vector<const onnx::NodeProto *> nodes; ///< functions inlined, in topological order
  /// The batch norms among `nodes` that normalize by the statistics of the batch.
  llvm::DenseSet<const onnx::NodeProto *> trainedNorms;
  int64_t opset = 0;
  mlir::Location location; ///< of the file
  Budget budget;           ///< of the whole import

  explicit Model(mlir::Location location) : location(location) {}
  const onnx::GraphProto &graph() const { return proto->graph(); }
};

/// Reads, parses and checks the file: opset 7 and later, no cycles, every value
/// defined once. Fails with a diagnostic that names the file.
llvm::FailureOr<Model> loadModel(mlir::MLIRContext &context, const std::string &path);

/// The value of a metadata entry, or an empty string.
std::string metadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &props,
                     const std::string &key);

/// True for the default operator set.
bool isDefaultDomain(const std::string &domain);

} // namespace dtc::import
