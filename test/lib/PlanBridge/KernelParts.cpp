// The kernels of a microbatch on one GPU: as the planner prices them, which knows no IR, and as
// they are formed. One line of each, launches first.
#include "KernelBytes.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Kernels/KernelFormation.h"
#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Plan/KernelParts.h"
#include "dtc/PlanBridge/PlanBridge.h"
#include "dtc/Target/Target.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace dtc;

namespace {

/// Of kernels alone; what libraries compute isn't among it.
struct Work {
  int64_t launches = 0;
  double bytes = 0;
};

Work formedIn(ModuleOp module, bool isVerbose) {
  Work work;
  SymbolTable symbols(module);
  graph::microbatchFunction(module).walk([&](exec::LaunchOp launch) {
    auto kernel = symbols.lookup<exec::KernelOp>(launch.getKernel());
    const double bytes = test::bytesMoved(launch, kernel);
    ++work.launches;
    work.bytes += bytes;
    if (isVerbose)
      llvm::outs() << "@" << launch.getKernel() << ": " << int64_t(bytes) << "\n";
  });
  return work;
}

Work pricedOf(const plan::Problem &problem, bool isVerbose) {
  Work sum;
  const plan::ProblemFacts facts(problem);
  const plan::CostModel model(*plan::loadCluster("dgx-h100"), 1);
  const plan::OpWork work(problem, facts, model);
  for (plan::OpId id = 0; id < static_cast<plan::OpId>(problem.ops.size()); ++id) {
    const plan::Op &op = problem.ops[id];
    sharding::OpSharding whole;
    whole.factors.resize(op.rule->factors.size());
    plan::LocalWork local = work.work(id, whole, {});
    const bool isMade =
        op.inProduct ? plan::isMadeWithProduct(problem, facts, id) : plan::isLibraryCall(op);
    const int64_t launches = isMade ? local.passes : local.kernels;
    const double bytes = isMade ? local.passedBytes : local.bytes;
    sum.launches += launches;
    sum.bytes += bytes;
    if (isVerbose && (launches || bytes != 0))
      llvm::outs() << "%" << id << " " << op.name << " " << op.location << ": " << launches << " "
                   << int64_t(bytes) << "\n";
  }
  return sum;
}

struct KernelPartsPass : PassWrapper<KernelPartsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelPartsPass)

  KernelPartsPass() = default;
  KernelPartsPass(const KernelPartsPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-kernel-parts"; }
  StringRef getDescription() const override {
    return "prints the kernels of a microbatch as they are priced and as they are formed";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<exec::ExecDialect>();
  }

  void runOnOperation() override {
    FailureOr<const target::Target *> target = target::targetOf(getOperation());
    if (failed(target))
      return signalPassFailure();
    auto staysWhole = [&](Operation *op) { return (*target)->staysWhole(op); };
    auto isPart = [&](Operation *op) { return kernels::isPartOfProduct(op, **target); };
    auto isWidened = [&](Operation *op) { return kernels::isWidened(op, **target); };
    FailureOr<plan::Problem> problem = planbridge::extract(
        getOperation(), {staysWhole, {}, isPart, (*target)->attentionAlignment(), isWidened});
    if (failed(problem))
      return signalPassFailure();
    const Work priced = pricedOf(*problem, verbose);
    if (failed(kernels::formKernels(getOperation(), **target)))
      return signalPassFailure();
    const Work formed = formedIn(getOperation(), verbose);
    llvm::outs() << "priced: " << priced.launches << " launches, " << int64_t(priced.bytes)
                 << " bytes\n"
                 << "formed: " << formed.launches << " launches, " << int64_t(formed.bytes)
                 << " bytes\n";
  }

  Option<bool> verbose{*this, "verbose", llvm::cl::init(false),
                       llvm::cl::desc("prints each op and each kernel, too")};
};

} // namespace

namespace dtc::test {
void registerPlanBridgeTestPasses() { PassRegistration<KernelPartsPass>(); }
} // namespace dtc::test
