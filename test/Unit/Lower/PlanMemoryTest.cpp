// Random step functions, planned and checked by dtc-verify-schedule, which knows nothing of how the
// planner works. They are executed on the planned memory, too, which must give what the values say.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Target/CPU/CpuTarget.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <sstream>

using namespace mlir;
using namespace dtc;

namespace {

constexpr const char *kKernels = R"mlir(
exec.kernel @one extent 16 scratch 0 {
^bb0(%a: tensor<16xf32>):
  exec.yield %a : tensor<16xf32>
}
exec.kernel @two extent 16 scratch 96 {
^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
  exec.yield %a, %b : tensor<16xf32>, tensor<16xf32>
}
)mlir";

/// A function over three parameters that returns them all, mixed up.
class RandomFunction {
public:
  explicit RandomFunction(uint32_t seed) : generator(seed) {}

  std::string text() {
    std::ostringstream out;
    out << kKernels << "func.func @update(";
    for (int i = 0; i < 3; ++i)
      out << (i ? ", " : "") << "%p" << i << ": tensor<16xf32> " << role(i);
    out << ") -> (";
    for (int i = 0; i < 3; ++i)
      out << (i ? ", " : "") << "tensor<16xf32> " << role(i);
    out << ") attributes {dtc.runs = #dtc.runs<step>} {\n";
    for (int i = 0; i < 3; ++i)
      values.push_back("%p" + std::to_string(i));
    for (int i = 0, count = 3 + draw(15); i < count; ++i)
      addOp(out, i);
    out << "  return " << pick() << ", " << pick() << ", " << pick()
        << " : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>\n}\n"
        << "exec.schedule microbatches 1 {\n  exec.call @update microbatch 0 slot 0\n}\n";
    return out.str();
  }

private:
  int draw(int bound) { return static_cast<int>(generator() % bound); }
  std::string pick() {
    // Mostly recent values, so that others die.
    size_t from = values.size() > 5 && draw(4) ? values.size() - 5 : 0;
    return values[from + draw(static_cast<int>(values.size() - from))];
  }
  static std::string role(int i) {
    return "{dtc.role = #dtc.role<parameter, \"" + std::to_string(i) + "\">}";
  }

  void addOp(std::ostringstream &out, int i) {
    std::string name = "%v" + std::to_string(i), a = pick(), b = pick();
    switch (draw(4)) {
    case 0:
      out << "  " << name << " = exec.launch @one(" << a << ") extent 16 in_place ["
          << draw(2) - 1 << "] : (tensor<16xf32>) -> tensor<16xf32>\n";
      values.push_back(name);
      return;
    case 1:
      out << "  " << name << "r = dtc.reshape " << a << " : tensor<16xf32> -> tensor<4x4xf32>\n  "
          << name << " = dtc.reshape " << name << "r : tensor<4x4xf32> -> tensor<16xf32>\n";
      values.push_back(name);
      return;
    default:
      out << "  " << name << ":2 = exec.launch @two(" << a << ", " << b
          << ") extent 16 in_place [" << draw(3) - 1 << ", " << draw(3) - 1
          << "] : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)\n";
      values.push_back(name + "#0");
      values.push_back(name + "#1");
    }
  }

  std::mt19937 generator;
  std::vector<std::string> values;
};

/// Stands for what an op computes: a mix of its operands, its result number
/// and its position.
uint64_t mix(uint64_t seed, uint64_t value) {
  seed ^= value + 0x9E3779B97F4A7C15u + (seed << 6) + (seed >> 2);
  return seed * 0xBF58476D1CE4E5B9u;
}

/// Executes the function twice, on values and on memory, and compares results.
class Machine {
public:
  Machine(func::FuncOp function, int64_t arenaBytes) : function(function), arena(arenaBytes) {}

  void run() {
    std::vector<uint64_t> homes;
    for (BlockArgument argument : function.getArguments()) {
      values[argument] = argument.getArgNumber() + 1;
      offsets[argument] = cast<IntegerAttr>(function.getArgAttr(argument.getArgNumber(),
                                                               "exec.offsets")).getInt();
      homes.push_back(offsets[argument]);
      store(argument, values[argument]);
    }
    uint64_t position = 0;
    for (Operation &op : function.getBody().front().without_terminator())
      execute(&op, ++position);
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      uint64_t found = 0;
      std::memcpy(&found, &arena[homes[i]], 8);
      EXPECT_EQ(found, values[value]) << "result " << i;
    }
  }

private:
  void store(Value value, uint64_t content) { std::memcpy(&arena[offsets[value]], &content, 8); }
  uint64_t load(Value value) {
    uint64_t content = 0;
    std::memcpy(&content, &arena[offsets[value]], 8);
    return content;
  }

  void execute(Operation *op, uint64_t position) {
    auto places = op->getAttrOfType<DenseI64ArrayAttr>("exec.offsets");
    for (OpResult result : op->getResults())
      offsets[result] = places[result.getResultNumber()];
    if (isa<graph::ReshapeOp, exec::CopyOp>(op)) {
      values[op->getResult(0)] = values[op->getOperand(0)];
      store(op->getResult(0), load(op->getOperand(0)));
      return;
    }
    uint64_t expected = position, found = position;
    for (Value operand : op->getOperands()) {
      expected = mix(expected, values[operand]);
      found = mix(found, load(operand));
    }
    if (auto scratch = op->getAttrOfType<DenseI64ArrayAttr>("exec.scratch"))
      std::memset(&arena[scratch[0]], 0xee, scratch[1]);
    for (OpResult result : op->getResults()) {
      values[result] = mix(expected, result.getResultNumber());
      store(result, mix(found, result.getResultNumber()));
    }
  }

  func::FuncOp function;
  std::vector<char> arena;
  llvm::DenseMap<Value, uint64_t> values;
  llvm::DenseMap<Value, int64_t> offsets;
};

TEST(PlanMemory, RandomFunctionsComputeTheSameOnPlannedMemory) {
  DialectRegistry registry;
  target::chooseTarget(registry, cpu::cpuTarget());
  MLIRContext context(registry);
  context.loadDialect<exec::ExecDialect, graph::GraphDialect, dist::DistDialect,
                      func::FuncDialect>();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    EXPECT_NE(text.find("exchange the places"), std::string::npos) << text;
    return success();
  });
  int planned = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::string text = RandomFunction(seed).text();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    PassManager passes(&context);
    passes.addPass(lower::createPlanMemory());
    if (failed(passes.run(*module)))
      continue;
    PassManager check(&context);
    check.addPass(lower::createVerifySchedule());
    ASSERT_TRUE(succeeded(check.run(*module))) << "seed " << seed << "\n" << text;
    auto arena = module->getOperation()->getAttrOfType<IntegerAttr>("exec.arena_bytes");
    Machine(module->lookupSymbol<func::FuncOp>("update"), arena.getInt()).run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
    ++planned;
  }
  EXPECT_GT(planned, 200);
}

} // namespace
