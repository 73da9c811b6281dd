#include "dtc/Lower/StepTerms.h"

#include "dtc/Lower/Passes.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <set>

using namespace mlir;
using namespace dtc;

namespace {

using StepTermsTest = test::ModuleTest<graph::GraphDialect, dist::DistDialect, exec::ExecDialect,
                                       arith::ArithDialect, func::FuncDialect>;

/// Three gradients that two microbatches add to, and an update that sums them over ranks.
constexpr const char *kStep = R"mlir(
#ga = #dtc.role<gradient, "a">
#gb = #dtc.role<gradient, "b">
#gc = #dtc.role<gradient, "c">
#pa = #dtc.role<parameter, "a">
#pb = #dtc.role<parameter, "b">
#pc = #dtc.role<parameter, "c">
!t = tensor<8xf32>
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @clear() -> (!t {dtc.role = #ga}, !t {dtc.role = #gb}, !t {dtc.role = #gc})
    attributes {dtc.runs = #dtc.runs<step>} {
  %z = exec.zero : !t
  return %z, %z, %z : !t, !t, !t
}
func.func @pass(%ga: !t {dtc.role = #ga}, %gb: !t {dtc.role = #gb}, %gc: !t {dtc.role = #gc},
                %pa: !t {dtc.role = #pa}, %pb: !t {dtc.role = #pb}, %pc: !t {dtc.role = #pc})
    -> (!t {dtc.role = #ga}, !t {dtc.role = #gb}, !t {dtc.role = #gc})
    attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  %a = arith.addf %ga, %pa : !t
  %b = arith.addf %gb, %pb : !t
  %c = arith.addf %gc, %pc : !t
  return %a, %b, %c : !t, !t, !t
}
func.func @update(%ga: !t {dtc.role = #ga}, %gb: !t {dtc.role = #gb}, %gc: !t {dtc.role = #gc},
                  %pa: !t {dtc.role = #pa}, %pb: !t {dtc.role = #pb}, %pc: !t {dtc.role = #pc})
    -> (!t {dtc.role = #pa}, !t {dtc.role = #pb}, !t {dtc.role = #pc})
    attributes {dtc.runs = #dtc.runs<step>} {
  %s:3 = dist.all_reduce sum %ga, %gb, %gc on @mesh {"dp"} : !t, !t, !t
  %a = arith.subf %pa, %s#0 : !t
  %b = arith.subf %pb, %s#1 : !t
  %c = arith.subf %pc, %s#2 : !t
  return %a, %b, %c : !t, !t, !t
}
exec.schedule microbatches 2 {
  exec.call @clear microbatch 0 slot 0
  exec.call @pass microbatch 0 slot 0
  exec.call @pass microbatch 1 slot 0
  exec.call @update microbatch 0 slot 0
}
)mlir";

LogicalResult run(ModuleOp module, std::unique_ptr<Pass> pass) {
  PassManager passes(module.getContext());
  passes.addPass(std::move(pass));
  return passes.run(module);
}

/// Exchanges two operands of one type, of every op in turn.
template <typename Check> void exchangeOperands(ModuleOp module, Check check) {
  module.walk([&](Operation *op) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      for (unsigned j = i + 1; j < op->getNumOperands(); ++j) {
        Value first = op->getOperand(i), second = op->getOperand(j);
        if (first == second || first.getType() != second.getType())
          continue;
        op->setOperand(i, second);
        op->setOperand(j, first);
        check(op);
        op->setOperand(i, first);
        op->setOperand(j, second);
      }
  });
}

TEST_F(StepTermsTest, SumsThatAreMadeEarlyChangeNothing) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kStep, &context);
  ASSERT_TRUE(module) << errors;
  const lower::StepTerms before(*module);
  ASSERT_TRUE(succeeded(run(*module, lower::createSumGradientsEarly()))) << errors;
  auto last = module->lookupSymbol<func::FuncOp>("pass_last");
  ASSERT_TRUE(last && !last.getOps<dist::AllReduceOp>().empty());
  EXPECT_EQ(lower::StepTerms(*module).differenceFrom(before), "");
  ASSERT_TRUE(succeeded(run(*module, lower::createStartCollectives()))) << errors;
  EXPECT_EQ(lower::StepTerms(*module).differenceFrom(before), "");
}

TEST_F(StepTermsTest, ExchangedValuesAreFound) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kStep, &context);
  ASSERT_TRUE(module) << errors;
  const lower::StepTerms before(*module);
  ASSERT_TRUE(succeeded(run(*module, lower::createSumGradientsEarly()))) << errors;
  std::set<std::string> functions;
  exchangeOperands(*module, [&](Operation *op) {
    auto function = op->getParentOfType<func::FuncOp>();
    EXPECT_NE(lower::StepTerms(*module).differenceFrom(before), "") << function.getName().str();
    functions.insert(function.getName().str());
  });
  EXPECT_EQ(functions, (std::set<std::string>{"pass", "pass_last", "update"}));
}

TEST_F(StepTermsTest, LostDoubledAndOtherSumsAreFound) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kStep, &context);
  ASSERT_TRUE(module) << errors;
  const lower::StepTerms before(*module);
  ASSERT_TRUE(succeeded(run(*module, lower::createSumGradientsEarly()))) << errors;
  const std::string lost = "#dtc.role<parameter, \"b\">";
  auto differenceWith = [&](llvm::function_ref<void(dist::AllReduceOp)> plant) {
    OwningOpRef<ModuleOp> changed = module->clone();
    auto function = changed->lookupSymbol<func::FuncOp>("pass_last");
    plant(*function.getOps<dist::AllReduceOp>().begin());
    return lower::StepTerms(*changed).differenceFrom(before);
  };
  EXPECT_EQ(differenceWith([](dist::AllReduceOp sum) {
              sum->getResult(1).replaceAllUsesWith(sum->getOperand(1));
            }),
            lost);
  EXPECT_EQ(differenceWith([](dist::AllReduceOp sum) {
              OpBuilder builder(sum->getContext());
              builder.setInsertionPointAfter(sum);
              auto again = dist::AllReduceOp::create(builder, sum.getLoc(),
                                                     sum->getResult(1).getType(), sum->getResult(1),
                                                     sum.getMesh(), sum.getAxes(), sum.getKind());
              sum->getResult(1).replaceAllUsesExcept(again->getResult(0), again);
            }),
            lost);
  EXPECT_EQ(differenceWith([](dist::AllReduceOp sum) {
              sum.setAxesAttr(
                  dist::AxesAttr::get(sum.getContext(), {StringAttr::get(sum.getContext(), "tp")}));
            }),
            "#dtc.role<parameter, \"a\">");
  // In the call before the last one.
  auto schedule = *module->getOps<exec::ScheduleOp>().begin();
  SmallVector<exec::CallOp> calls(schedule.getOps<exec::CallOp>());
  calls[2].setCallee("pass");
  calls[1].setCallee("pass_last");
  EXPECT_EQ(lower::StepTerms(*module).differenceFrom(before), "#dtc.role<parameter, \"a\">");
}

} // namespace
