// One run of the compiler, phase by phase.
#pragma once

#include "dtc/Driver/Options.h"
#include "dtc/Package/Package.h"
#include "dtc/Plan/Explain/Explain.h"
#include "dtc/PlanBridge/LocalWorkspace.h"
#include "dtc/PlanBridge/PlanBridge.h"
#include "dtc/Target/Target.h"
#include "dtc-rt/PackageFormat.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

namespace dtc::driver {

using rt::ExitCode;

/// Samples of a step, and into how many calls they are cut.
struct BatchChoice {
  int64_t globalBatch = 0, numMicrobatches = 1;
  int64_t perCall() const { return globalBatch / numMicrobatches; }
  bool operator==(const BatchChoice &) const = default;
};

/// Owns the IR and what the phases hand on beside it.
class Compilation {
public:
  explicit Compilation(Options options);

  /// Runs the phases up to and including `until`. Returns the exit code of the
  /// first that fails, whose error was printed, or Done.
  ExitCode run(Phase until);

  /// Runs them up to the problem that would be planned, which getProblem then is.
  ExitCode prepareProblem();

  mlir::ModuleOp module() { return *model.module; }
  const Options &getOptions() const { return options; }
  const import::ImportedModel &getModel() const { return model; }
  const plan::Cluster &getCluster() const { return cluster; }
  const plan::Problem &getProblem() const { return problem; }
  const plan::SearchResult &getSearch() const { return search; }
  /// Of the plan as it was searched; with --explain.
  const std::optional<plan::Explanation> &getExplanation() const { return explanation; }
  const plan::Workspace *getWorkspace() const { return workspace.get(); }
  /// What --verify found; empty without it.
  const std::string &getVerified() const { return verified; }
  double getPlanningSeconds() const { return planningSeconds; }

private:
  // The phases, in order.
  ExitCode importModel();
  ExitCode buildTraining();
  ExitCode planAndApply();
  ExitCode partition();
  ExitCode checkVerifiable();
  ExitCode verifyRanks(mlir::ModuleOp global);
  ExitCode schedule();
  ExitCode lower();
  /// Refuses programs that would read something else than they should.
  ExitCode replayPrograms(const std::vector<package::Role> &roles);
  ExitCode package();

  bool hasPlanFile() const;
  plan::Result<plan::Spec> specOfPlanFile();
  ExitCode readSpec();
  ExitCode importBatch(std::optional<int64_t> batch);
  ExitCode makePlan();
  ExitCode extractProblem();
  ExitCode searchPlan(const plan::Spec &pins);
  ExitCode readPlan();
  plan::SearchOptions searchOptions(const plan::Spec &pins) const;
  void explainSearch();
  ExitCode replan();
  ExitCode planCalls(const plan::Degrees &degrees, const BatchChoice &cut);
  ExitCode explainAgain(const BatchChoice &whole,
                        const std::vector<plan::SearchResult::Alternative> &others);
  std::unique_ptr<plan::Workspace> makeWorkspace();
  ExitCode fail(const plan::Error &error);
  mlir::LogicalResult runPasses(llvm::function_ref<void(mlir::OpPassManager &)> build);
  mlir::LogicalResult scheduleModule();
  llvm::Error finishCode();
  ExitCode resolveWeights();
  nlohmann::ordered_json aboutArtifact() const;
  bool degreesOpen() const;
  plan::Result<BatchChoice> chooseBatch(int64_t dataParallel) const;

  Options options;
  const target::Target *target; ///< null: one that is only planned for
  Phase last = Phase::End; ///< of this run
  mlir::MLIRContext context;
  import::ImportedModel model;
  plan::Spec given; ///< by --plan and --micro-batch
  plan::Spec spec;  ///< that, filled, then what was chosen
  plan::Spec open;  ///< that, filled, before anything was chosen
  std::string planText; ///< of a plan file
  plan::Cluster cluster;
  BatchChoice batch;
  plan::Problem problem;
  std::unique_ptr<plan::Workspace> workspace; ///< null: the target isn't at hand
  plan::SearchResult search;
  std::optional<plan::Explanation> explanation;
  std::unique_ptr<target::KernelCompilation> kernels; ///< on its way from the schedule phase on
  target::CodeObject code;
  std::unique_ptr<rt::fbs::ProgramT> program; ///< in the artifact
  std::map<std::string, package::Distribution> init; ///< of parameters without data
  int64_t vocabulary = 0; ///< of the token input; 0: none
  double planningSeconds = 0;
  std::string verified;
};

} // namespace dtc::driver
