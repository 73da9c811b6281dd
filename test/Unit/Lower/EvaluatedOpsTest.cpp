// Which ops of a step an evaluation carries out.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Lower/Program.h"
#include "dtc/Target/CPU/CpuTarget.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc;

namespace {

using Names = std::vector<std::string>;

/// Functions and numbers of the instructions that it doesn't leave out.
Names carriedOut(const std::string &text) {
  DialectRegistry registry;
  target::chooseTarget(registry, cpu::cpuTarget());
  MLIRContext context(registry);
  context
      .loadDialect<exec::ExecDialect, dist::DistDialect, func::FuncDialect, arith::ArithDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  PassManager passes(&context);
  passes.addPass(lower::createPlanMemory());
  if (!module || failed(passes.run(*module)))
    return {"no module"};
  auto built = lower::buildProgram(*module);
  if (failed(built))
    return {"no program"};
  Names names;
  for (const auto &function : built->program->functions)
    for (auto [i, instruction] : llvm::enumerate(function->instructions))
      if (!instruction->training_only)
        names.push_back(function->name + " " + std::to_string(i));
  return names;
}

/// The loss is computed forward, of what another stage sends; gradients are of what is kept.
constexpr const char *kLossForward = R"mlir(
dist.mesh @mesh ["tp" = 1]
func.func @clear() -> (tensor<16xf32> {dtc.role = #dtc.role<gradient, "w">}, tensor<16xf32> {dtc.role = #dtc.role<loss, "">})
    attributes {dtc.runs = #dtc.runs<step>} {
  %g = exec.zero : tensor<16xf32>
  %l = exec.zero : tensor<16xf32>
  return %g, %l : tensor<16xf32>, tensor<16xf32>
}
func.func @receive() -> (tensor<16xf32> {dtc.role = #dtc.role<inbox, "a">})
    attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  %a = exec.receive from [0] channel 3 {exec.queue = #exec.queue<receive>} : tensor<16xf32>
  return %a : tensor<16xf32>
}
func.func @forward(%a: tensor<16xf32> {dtc.role = #dtc.role<inbox, "a">}, %l: tensor<16xf32> {dtc.role = #dtc.role<loss, "">})
    -> (tensor<16xf32> {dtc.role = #dtc.role<kept, "k">}, tensor<16xf32> {dtc.role = #dtc.role<loss, "">})
    attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  %in = exec.wait %a : tensor<16xf32>
  %k = exec.copy %in : tensor<16xf32>
  %h = exec.copy %l : tensor<16xf32>
  %m = exec.copy %h : tensor<16xf32>
  return %k, %m : tensor<16xf32>, tensor<16xf32>
}
func.func @backward(%k: tensor<16xf32> {dtc.role = #dtc.role<kept, "k">}, %g: tensor<16xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<16xf32> {dtc.role = #dtc.role<outbox, "d">}, tensor<16xf32> {dtc.role = #dtc.role<gradient, "w">})
    attributes {dtc.runs = #dtc.runs<microbatch, backward>} {
  %d = exec.copy %k : tensor<16xf32>
  %n = exec.copy %g : tensor<16xf32>
  return %d, %n : tensor<16xf32>, tensor<16xf32>
}
func.func @send(%d: tensor<16xf32> {dtc.role = #dtc.role<outbox, "d">})
    attributes {dtc.runs = #dtc.runs<microbatch, input_grad>} {
  exec.send %d to [0] channel 0 {exec.queue = #exec.queue<send>} : tensor<16xf32>
  return
}
exec.schedule microbatches 1 {
  exec.call @clear microbatch 0 slot 0
  exec.call @receive microbatch 0 slot 0
  exec.call @forward microbatch 0 slot 0
  exec.call @backward microbatch 0 slot 0
  exec.call @send microbatch 0 slot 0
}
)mlir";

} // namespace

TEST(EvaluatedOps, GradientsAreLeftOut) {
  EXPECT_EQ(carriedOut(kLossForward), (Names{"clear 1", "receive 0", "forward 1", "forward 2"}));
}
