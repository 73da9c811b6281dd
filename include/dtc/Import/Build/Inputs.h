// The sizes of a model's inputs: what the file says, completed by --shape and the batch.
//
//   file                     asked                         bound
//   ids [batch, 32]          batch 8                       ids [8, 32]
//   ids [batch, length]      --shape ids=8,128             ids [8, 128], and length = 128 elsewhere
#pragma once

#include "dtc/Import/ImportedModel.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtc::import {

/// A dimension as the file states it. Without a size it is symbolic; dimensions with one symbol are
/// equal.
struct FileDim {
  std::optional<int64_t> size;
  std::string symbol;
};

struct FileInput {
  std::string name;
  mlir::Type element; ///< null: none that is supported
  std::optional<std::vector<FileDim>> dims;
};

struct DataInput {
  std::string name;
  mlir::RankedTensorType type; ///< as in the file
};

struct BoundInputs {
  std::vector<DataInput> inputs;
  int64_t fileBatch = -1;                 ///< 0: symbolic, -1: no input has a batch
  std::string batchOf;                    ///< the input that says so
  std::optional<int64_t> shapeBatch;      ///< from --shape
  std::map<std::string, int64_t> symbols; ///< sizes of symbolic dimensions
  std::map<std::string, std::optional<int64_t>> batchDims; ///< of inputs where it isn't the first
};

/// `samples`: what is asked for, where the file leaves it open. Errors are diagnostics at `file`.
mlir::FailureOr<BoundInputs> bindInputs(mlir::Location file, const ImportOptions &options,
                                        const std::vector<FileInput> &inputs,
                                        std::optional<Samples> samples);

} // namespace dtc::import
