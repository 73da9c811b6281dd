// One run of the compiler, phase by phase.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/PlanBridge/PlanBridge.h"
#include "dtc-rt/PackageFormat.h"

#include "mlir/IR/MLIRContext.h"

namespace dtc::driver {

using rt::ExitCode;

/// Owns the IR and what the phases hand on beside it.
class Compilation {
public:
  explicit Compilation(Options options);
  ~Compilation();

  /// Runs the phases up to `last` and returns the first exit code that is not
  /// Done; errors were printed.
  ExitCode run(Phase last);

  mlir::ModuleOp module() { return *model.module; }
  const Options &getOptions() const { return options; }
  const import::ImportedModel &getModel() const { return model; }
  const plan::Problem &getProblem() const { return problem; }
  const plan::SearchResult &getSearch() const { return search; }

private:
  ExitCode importModel();
  ExitCode buildTraining();
  ExitCode makePlan();
  ExitCode partition();
  ExitCode schedule();
  ExitCode lower();
  ExitCode package();

  ExitCode chooseBatch();
  ExitCode loadWeights();
  mlir::LogicalResult runPasses(llvm::function_ref<void(mlir::OpPassManager &)> build);

  Options options;
  mlir::MLIRContext context;
  import::ImportedModel model;
  plan::Problem problem;
  plan::SearchResult search;
  int64_t globalBatch = 0;
};

} // namespace dtc::driver
