// Where the samples lie in the values of an imported graph, whose inputs needn't have them first.
#pragma once

#include "dtc/Raise/Emit.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc::raise {

/// Of a value of [samples, ...] the form that the file has: samples at `dim`, or no dimension of
/// samples (none).
mlir::Value fromSamplesFirst(Emitter &emit, mlir::Value value, std::optional<int64_t> dim);
/// The reverse. A value without samples gets a first dimension of 1.
mlir::Value toSamplesFirst(Emitter &emit, mlir::Value value, std::optional<int64_t> dim);

/// How a value depends on samples.
struct SamplesIn {
  bool any = false;           ///< whether any sample reaches the value
  std::optional<int64_t> dim; ///< the dimension that has them, where there is one
};

/// Follows the samples from the inputs of @forward to `values`; inputs in `whole` have none. Where
/// a call takes one sample and it can't be followed, it is a value's first dimension of size 1.
llvm::FailureOr<std::vector<SamplesIn>> followSamples(mlir::func::FuncOp func,
                                                      llvm::ArrayRef<std::string> whole,
                                                      llvm::ArrayRef<mlir::Value> values);

} // namespace dtc::raise
