#include "dtc/PlanBridge/Passes.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/PlanBridge/PlanBridge.h"

using namespace mlir;

namespace dtc::planbridge {

namespace {

struct PlanPass : PassWrapper<PlanPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanPass)
  PlanPass() = default;
  PlanPass(const PlanPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "dtc-plan"; }
  StringRef getDescription() const override {
    return "plans a module and writes the plan into it";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<dist::DistDialect>();
  }

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
      return module.emitError(found.error().message);
    if (failed(verify(module, *problem, found->plan, *loaded)))
      return failure();
    return apply(module, *problem, found->plan);
  }

  Option<int64_t> devices{*this, "devices", llvm::cl::init(1),
                          llvm::cl::desc("number of devices")};
  Option<std::string> spec{*this, "plan", llvm::cl::init("auto"),
                           llvm::cl::desc("what is pinned: dp=2,tp=2")};
  Option<std::string> cluster{*this, "cluster", llvm::cl::init("cpu"),
                              llvm::cl::desc("name or file of the cluster")};
  Option<bool> all{*this, "all", llvm::cl::init(false),
                   llvm::cl::desc("also plans that can't be compiled yet")};
};

struct PrintProblemPass : PassWrapper<PrintProblemPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintProblemPass)
  PrintProblemPass() = default;
  PrintProblemPass(const PrintProblemPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "dtc-print-problem"; }
  StringRef getDescription() const override { return "prints what is to be planned as JSON"; }

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

  Option<int64_t> batch{*this, "batch", llvm::cl::init(0),
                        llvm::cl::desc("samples of a call; 0: as in the module")};
};

} // namespace

void registerPlanBridgePasses() {
  PassRegistration<PlanPass>();
  PassRegistration<PrintProblemPass>();
}

} // namespace dtc::planbridge
