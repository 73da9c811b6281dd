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
void registerGraphTestPasses();
void registerLowerTestPasses();
void registerPartitionTestPasses();
void registerTrainingTestPasses();
} // namespace dtc::test
#endif

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<dtc::graph::GraphDialect, dtc::dist::DistDialect, dtc::exec::ExecDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect>();
  dtc::graph::registerElementwiseModels(registry);
  dtc::target::chooseTarget(registry, *dtc::target::find("cpu"));
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  dtc::interpreter::registerInterpreterPasses();
  dtc::pipelines::registerPipelines();
  dtc::planbridge::registerPlanBridgePasses();
#ifdef DTC_TEST_PASSES
  dtc::test::registerCpuTestPasses();
  dtc::test::registerGraphTestPasses();
  dtc::test::registerLowerTestPasses();
  dtc::test::registerPartitionTestPasses();
  dtc::test::registerTrainingTestPasses();
#endif
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "dtc pass driver\n", registry));
}
