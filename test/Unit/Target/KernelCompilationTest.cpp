// Compiling kernels beside other work: the same code however many threads do it, and an end
// where it isn't asked for any more.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Target/CPU/CodeObject.h"
#include "dtc/Target/CPU/Features.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;

namespace {

class KernelCompilationTest : public test::ModuleTest<graph::GraphDialect, exec::ExecDialect,
                                                     arith::ArithDialect, func::FuncDialect> {
protected:
  /// `count` kernels, enough for several parts; number i adds its argument i times to itself.
  OwningOpRef<ModuleOp> kernels(int count, int extent = 16) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "exec.kernel @k" + std::to_string(i) + " extent " + std::to_string(extent) +
              " scratch 0 flat {\n^bb0(%a: tensor<16xf32>):\n  %0 = arith.addf %a, %a : "
              "tensor<16xf32>\n";
      for (int j = 0; j < i; ++j)
        text += "  %" + std::to_string(j + 1) + " = arith.addf %" + std::to_string(j) +
                ", %a : tensor<16xf32>\n";
      text += "  exec.yield %" + std::to_string(i) + " : tensor<16xf32>\n}\n";
    }
    return parseSourceString<ModuleOp>(text, &context);
  }

  static LogicalResult addAll(cpu::KernelCompilation &compilation, ModuleOp module) {
    for (auto kernel : module.getOps<exec::KernelOp>())
      if (failed(compilation.add(kernel)))
        return failure();
    return compilation.close();
  }
};

TEST_F(KernelCompilationTest, ThreadsDontChangeTheCode) {
  OwningOpRef<ModuleOp> module = kernels(24);
  ASSERT_TRUE(module) << errors;
  std::vector<std::vector<char>> objects;
  for (unsigned threads : {1u, 2u, 5u, 40u}) {
    cpu::CompileOptions options;
    options.threads = threads;
    cpu::KernelCompilation compilation(context, options);
    ASSERT_TRUE(succeeded(addAll(compilation, *module))) << errors;
    llvm::Expected<target::CodeObject> code = compilation.finish();
    ASSERT_TRUE(bool(code));
    EXPECT_EQ(code->symbols.size(), 24u);
    EXPECT_EQ(code->symbols.back(), "k23");
    EXPECT_FALSE(code->features.empty());
    EXPECT_EQ(code->features, cpu::recordedFeatures(cpu::hostProcessor().features));
    ASSERT_EQ(code->files.size(), 1u);
    EXPECT_EQ(code->files[0].name, "kernels.so");
    objects.push_back(std::move(code->files[0].bytes));
  }
  for (const std::vector<char> &object : objects)
    EXPECT_EQ(object, objects.front());
}

TEST_F(KernelCompilationTest, GivesUpWhatNobodyAsksFor) {
  OwningOpRef<ModuleOp> module = kernels(24);
  cpu::CompileOptions options;
  options.threads = 3;
  cpu::KernelCompilation compilation(context, options);
  ASSERT_TRUE(succeeded(addAll(compilation, *module))) << errors;
}

TEST_F(KernelCompilationTest, ReportsAKernelWhileOthersAreCompiled) {
  OwningOpRef<ModuleOp> module = kernels(24);
  Operation *last = &module->getBody()->back();
  cast<exec::KernelOp>(last).setFlat(false);
  cast<exec::KernelOp>(last).setExtent(3);
  cpu::CompileOptions options;
  options.threads = 3;
  cpu::KernelCompilation compilation(context, options);
  EXPECT_TRUE(failed(addAll(compilation, *module)));
  EXPECT_NE(errors.find("extent differs"), std::string::npos) << errors;
}

TEST_F(KernelCompilationTest, ReportsAProcessorThatThereIsNot) {
  OwningOpRef<ModuleOp> module = kernels(8);
  cpu::CompileOptions options;
  options.cpu = "abacus";
  cpu::KernelCompilation compilation(context, options);
  ASSERT_TRUE(succeeded(addAll(compilation, *module))) << errors;
  llvm::Expected<target::CodeObject> code = compilation.finish();
  ASSERT_FALSE(bool(code));
  EXPECT_EQ(llvm::toString(code.takeError()), "unknown processor: abacus");
}

} // namespace
