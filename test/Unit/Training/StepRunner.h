// Runs training steps of a module on the reference interpreter.
#pragma once

#include "SafetensorsFile.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Interpreter/Interpreter.h"
#include "dtc/Weights/WeightStore.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::test {

struct StepResult {
  double loss = 0, gradNorm = 0;
};

/// Keeps parameters, masters and optimizer states between the steps of a module
/// that buildTraining made. What an argument is follows from its role alone.
class StepRunner {
public:
  StepRunner(mlir::ModuleOp module, const WeightStore &weights, int64_t numMicrobatches);

  /// One step on `batch`: the arrays of all microbatches, by name.
  mlir::FailureOr<StepResult> step(const Arrays &batch, double learningRate);

  /// The present value of a parameter (its master where it has one); null if
  /// there is none of that name.
  const interpreter::Tensor *parameter(const std::string &name) const;

private:
  using Key = std::tuple<graph::RoleKind, std::string, int>;
  static Key keyOf(graph::RoleAttr role);
  void load(mlir::func::FuncOp func, const WeightStore &weights);
  mlir::LogicalResult call(llvm::StringRef function);

  mlir::ModuleOp module;
  int64_t numMicrobatches;
  int64_t steps = 0;
  std::map<Key, interpreter::Tensor> values; ///< by role, kept and passing alike
};

} // namespace dtc::test
