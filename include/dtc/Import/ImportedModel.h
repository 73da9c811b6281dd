// What every importer is asked and what it gives.
//
// An importer reads one kind of file. It writes the graph with the builders of Raise/Emit.h, and
// runs the pipeline of Raise/Passes.h on it. It returns the graph with the weights that the file
// has.
#pragma once

#include "dtc/Weights/WeightStore.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace dtc::import {

/// --batch-dim: where the samples of an input lie. Elsewhere they are its first dimension.
using BatchDim = std::optional<int64_t>; ///< none: it has no samples, and all take it whole
using BatchDims = std::map<std::string, BatchDim>;

struct InputShape {
  std::vector<int64_t> dims;
  std::string type; ///< MLIR element type ("i64"); empty: the file's
};

/// What batch norms normalize by.
enum class BatchNormMode : uint8_t {
  AsInFile, ///< running statistics where the model was exported in eval mode
  Train     ///< the batch's statistics, also where the file has the running ones
};

struct ImportOptions {
  std::string path;
  std::map<std::string, InputShape> shapes;   ///< --shape
  std::optional<std::string> freeze, train;   ///< regular expressions on parameter names
  std::map<std::string, int64_t> paddingRows; ///< --padding-idx WEIGHT=ROW
  BatchDims batchDims;                        ///< --batch-dim INPUT=AXIS|none
  BatchNormMode batchNorm = BatchNormMode::AsInFile; ///< --batch-norm
  bool allowMerged = false;                   ///< --allow-merged
  bool training = true;                       ///< false: the merged-initializer trap only warns
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< dtc.parameter ops and one func.func @forward
  WeightStore weights;   ///< by the file's names; entries without data where the file has none
  int64_t nodes = 0;     ///< of the file's graph, functions inlined
  int64_t fileBatch = 0; ///< the file's batch, or that of --shape; 0: symbolic
  /// Inputs and outputs whose samples aren't their first dimension in the file. @forward has them
  /// with samples first. Those without samples get a first dimension of 1.
  BatchDims batchDims;
};

/// How many samples a graph is for. What a file computes of a batch that it leaves open is of those
/// of a step, whatever calls the step is cut into.
struct Samples {
  int64_t call = 1, step = 1;
};

/// A model file that has been read. It is asked again for each number of samples.
class ModelFile {
public:
  virtual ~ModelFile() = default;
  /// `samples`: by default the file's, or 1 if symbolic. Errors are diagnostics of the context that
  /// name the file and, where there is one, the node.
  virtual llvm::FailureOr<ImportedModel> import(std::optional<Samples> samples) const = 0;
};

} // namespace dtc::import
