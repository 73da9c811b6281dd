// Everything that was compiled, into one artifact (dtc-rt/Program/PackageFormat.h).
#pragma once

#include "dtc-rt/Program_generated.h"
#include "dtc/Package/ZipWriter.h"
#include "dtc/Weights/WeightStore.h"

#include "mlir/IR/BuiltinOps.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dtc::package {

using Json = nlohmann::ordered_json;

/// How a parameter without data is drawn at the start of a run.
struct Distribution {
  double mean = 0, sd = 0;
};

/// A program and the world ranks that run it, by their positions on its mesh.
struct Role {
  const rt::fbs::ProgramT *program = nullptr;
  std::vector<int32_t> ranks;
  mlir::ModuleOp module; ///< that the program was made of
};

/// A file of kernels, "kernels.so"; the bytes live until the artifact is written.
struct CodeFile {
  std::string name;
  Bytes bytes;
};

struct PackageInputs {
  std::string path; ///< of the artifact
  std::vector<Role> roles; ///< at least one; every rank of the world is in one
  /// Parameters and buffers in the order of the model, which --init draws by; others follow.
  std::vector<std::string> parameters;
  /// Gives the files of the kernels, which are asked for once everything before them is
  /// written. Without it there are none.
  std::function<llvm::Expected<std::vector<CodeFile>>()> code;

  const WeightStore *weights = nullptr;
  bool embedWeights = false; ///< also those that lie outside the model file
  std::string data;          ///< file that a run takes its samples of; empty: it is told which
  /// For parameters of which `weights` has no data (--init).
  std::map<std::string, Distribution> init;

  /// Inputs and outputs whose samples aren't first in the model's own layout, or that have none.
  std::map<std::string, std::optional<int64_t>> batchDims;

  /// The manifest's keys that only the driver knows: target, processor,
  /// global_batch, sequence, vocabulary, traits, loss, ignore_index, learning_rate,
  /// optimizer, plan, predicted.
  Json about;
};

/// Writes the artifact. Errors are diagnostics at the first role's module.
mlir::LogicalResult writePackage(const PackageInputs &inputs);

} // namespace dtc::package
