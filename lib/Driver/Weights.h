// Where a model's weights come from when its file has none.
#pragma once

#include "dtc/Package/Package.h"
#include "dtc/Plan/Plan/Result.h"
#include "dtc/Weights/WeightStore.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::driver {

/// What isn't both in the model and in the files; for the user to know.
struct LoadedWeights {
  std::vector<std::string> kept;    ///< tensors that the files lack; they keep the model's own data
  std::vector<std::string> missing; ///< tensors for which neither has data
  std::vector<std::string> unread;  ///< arrays that the model lacks
};

/// Fills the entries of `store` from a safetensors file, a folder of them, or an index
/// (`*.safetensors.index.json`). Names match exactly or, where none does, after one prefix up to a
/// dot, of the model's names and of the files' ("m.", "model."). Those prefixes count under which
/// most are found. A tied weight is found under any of its aliases, under all of which its elements
/// must be the same. Shapes and types must agree.
///
/// Refused are files with none of the model's tensors and, unless `partial`, ones without a tensor
/// that the model has no data for.
plan::Result<LoadedWeights> loadWeights(const std::string &path, mlir::ModuleOp module,
                                        WeightStore &store, bool partial);

/// How each parameter without data is drawn for `--init`. Matrices and tables are normal with
/// deviation 0.02 (GPT-2's). Convolutions are, with Kaiming's for the number of outputs (He et al.
/// 2015), norm scales 1, biases 0, running statistics 0 and 1. Fails on a buffer that none of these
/// fits.
plan::Result<std::map<std::string, package::Distribution>>
chooseInitialization(mlir::ModuleOp module, const WeightStore &store);

/// How fresh adapters are drawn, and what the numbers of loss scaling begin with.
std::map<std::string, package::Distribution> madeForTraining(mlir::ModuleOp module,
                                                             const WeightStore &store);

/// Names of the parameters and buffers that have no data.
std::vector<std::string> withoutData(mlir::ModuleOp module, const WeightStore &store);

} // namespace dtc::driver
