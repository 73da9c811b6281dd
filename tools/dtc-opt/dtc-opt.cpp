#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Interpreter/Passes.h"
#include "dtc/Pipelines/Pipelines.h"
#include "dtc/PlanBridge/Passes.h"
#include "dtc/Target/Targets.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#ifdef DTC_TEST_PASSES
namespace dtc::test {
void registerCpuTestPasses();
void registerCudaTestPasses();
void registerExposedCollectivesPass();
void registerGraphTestPasses();
void registerLowerTestPasses();
void registerPartitionTestPasses();
void registerPlanBridgeTestPasses();
void registerTrainingTestPasses();
} // namespace dtc::test
#endif

/// What `--target=NAME` says, if it is the first argument, which is then taken away; else cpu.
static llvm::StringRef takeTarget(int &argc, char **argv) {
  llvm::StringRef name = argc > 1 ? argv[1] : "";
  if (!name.consume_front("--target="))
    return "cpu";
  std::copy(argv + 2, argv + argc + 1, argv + 1); // the null behind them too
  --argc;
  return name;
}

int main(int argc, char **argv) {
  const dtc::target::Target *target = dtc::target::find(takeTarget(argc, argv));
  if (!target) {
    llvm::errs() << "unknown target\n";
    return 2;
  }
  mlir::DialectRegistry registry;
  registry.insert<dtc::graph::GraphDialect, dtc::dist::DistDialect, dtc::exec::ExecDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect>();
  dtc::graph::registerElementwiseModels(registry);
  dtc::target::chooseTarget(registry, *target);
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  dtc::interpreter::registerInterpreterPasses();
  dtc::pipelines::registerPipelines();
  dtc::planbridge::registerPlanBridgePasses();
#ifdef DTC_TEST_PASSES
  dtc::test::registerCpuTestPasses();
  dtc::test::registerCudaTestPasses();
  dtc::test::registerExposedCollectivesPass();
  dtc::test::registerGraphTestPasses();
  dtc::test::registerLowerTestPasses();
  dtc::test::registerPartitionTestPasses();
  dtc::test::registerPlanBridgeTestPasses();
  dtc::test::registerTrainingTestPasses();
#endif
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "dtc pass driver\n", registry));
}
