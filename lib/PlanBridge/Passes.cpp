#include "dtc/PlanBridge/Passes.h"

#include "dtc/PlanBridge/PlanBridge.h"
#include "dtc/Report/Failure.h"

using namespace mlir;

namespace dtc::planbridge {
#define GEN_PASS_DEF_PLANMODULE
#define GEN_PASS_DEF_PRINTPROBLEM
#include "dtc/PlanBridge/Passes.h.inc"

namespace {

struct PlanModule : impl::PlanModuleBase<PlanModule> {
  using PlanModuleBase::PlanModuleBase;

  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

  LogicalResult run(ModuleOp module) {
    FailureOr<plan::Problem> problem = extract(module);
    if (failed(problem))
      return failure();
    plan::Result<plan::Cluster> loaded = plan::loadCluster(cluster);
    if (!loaded)
      return module.emitError(loaded.error().message);
    plan::Result<plan::Spec> parsed = plan::parseSpec(spec);
    if (!parsed)
      return module.emitError(parsed.error().message);
    plan::SearchOptions options;
    options.devices = devices;
    options.spec = *parsed;
    options.executable = !all;
    options.fixedCalls = true; // the module is as it is
    auto found = plan::search(*problem, *loaded, options);
    if (!found)
      return module.emitError(report::failureText(found.error()));
    if (failed(verify(module, *problem, found->plan, *loaded)))
      return failure();
    return apply(module, *problem, found->plan);
  }
};

struct PrintProblem : impl::PrintProblemBase<PrintProblem> {
  using PrintProblemBase::PrintProblemBase;

  void runOnOperation() override {
    if (failed(print(getOperation())))
      signalPassFailure();
  }

  LogicalResult print(ModuleOp module) {
    FailureOr<plan::Problem> problem = extract(module);
    if (failed(problem))
      return failure();
    if (batch > 0) {
      plan::Result<plan::Problem> other =
          plan::rebatched(*problem, plan::ProblemFacts(*problem), batch);
      if (!other)
        return module.emitError(other.error().message);
      *problem = std::move(*other);
    }
    llvm::outs() << plan::toJson(*problem);
    return success();
  }
};

} // namespace

} // namespace dtc::planbridge
