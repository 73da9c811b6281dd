// Compiling kernels beside other work: the same code however many threads do it, and an end
// where it isn't asked for any more.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Target/CPU/CodeObject.h"
#include "dtc/Target/CPU/Features.h"

#include "../ModuleTest.h"

#include "dtc/Target/TemporaryFolder.h"

#include "mlir/Parser/Parser.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace mlir;
using namespace dtc;

namespace {

class KernelCompilationTest : public test::ModuleTest<graph::GraphDialect, exec::ExecDialect,
                                                     arith::ArithDialect, func::FuncDialect> {
protected:
  void SetUp() override { setenv("DTC_KERNEL_CACHE", "off", 1); }
  void TearDown() override { unsetenv("DTC_KERNEL_CACHE"); }

  std::vector<char> compile(ModuleOp module, const std::string &cpu = "") {
    cpu::CompileOptions options;
    options.cpu = cpu;
    cpu::KernelCompilation compilation(context, options);
    EXPECT_TRUE(succeeded(addAll(compilation, module))) << errors;
    llvm::Expected<target::CodeObject> code = compilation.finish();
    if (!code) {
      ADD_FAILURE() << llvm::toString(code.takeError());
      return {};
    }
    return std::move(code->files.at(0).bytes);
  }

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

/// Sums of `rows` rows of `width` elements.
std::string rowSums(const std::string &name, int rows, int width) {
  std::string in = "tensor<" + std::to_string(rows) + "x" + std::to_string(width) + "xf32>",
              out = "tensor<" + std::to_string(rows) + "xf32>";
  return "exec.kernel @" + name + " extent " + std::to_string(rows) +
         " scratch 0 {\n^bb0(%a: " + in + "):\n  %0 = dtc.reduce sum %a [1] : " + in + " -> " +
         out + "\n  exec.yield %0 : " + out + "\n}\n";
}

/// Adds a table.
std::string tableSum(const std::string &name, const std::string &table) {
  std::string type = "tensor<4xf32>";
  return "exec.kernel @" + name + " extent 4 scratch 0 {\n^bb0(%a: " + type +
         "):\n  %t = arith.constant dense<" + table + "> : " + type +
         "\n  %0 = arith.addf %a, %t : " + type + "\n  exec.yield %0 : " + type + "\n}\n";
}

TEST_F(KernelCompilationTest, KernelsOfTheSameLoopsShareCode) {
  std::string text = rowSums("r0", 64, 48) + tableSum("t0", "[1.0, 2.0, 3.0, 4.0]") +
                     rowSums("r1", 8, 48) + rowSums("r2", 64, 40) +
                     tableSum("t1", "[1.0, 2.0, 3.0, 5.0]") + rowSums("r3", 16, 40);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module) << errors;
  cpu::KernelCompilation compilation(context, cpu::CompileOptions());
  ASSERT_TRUE(succeeded(addAll(compilation, *module))) << errors;
  llvm::Expected<target::CodeObject> code = compilation.finish();
  ASSERT_TRUE(bool(code));
  EXPECT_EQ(code->symbols, (std::vector<std::string>{"r0", "t0", "r1", "r2", "t1", "r3"}));
  target::TemporaryFolder folder;
  const std::vector<char> &bytes = code->files[0].bytes;
  std::string path = folder.file("kernels.so");
  ASSERT_FALSE(bool(target::writeFile(path, StringRef(bytes.data(), bytes.size()))));
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  auto codeOf = [&](const char *name) { return dlsym(library, name); };
  ASSERT_NE(codeOf("r0"), nullptr);
  EXPECT_EQ(codeOf("r1"), codeOf("r0"));
  EXPECT_NE(codeOf("r2"), codeOf("r0"));
  EXPECT_EQ(codeOf("r3"), codeOf("r2"));
  EXPECT_NE(codeOf("t1"), codeOf("t0"));
  dlclose(library);
}

/// The second module has a kernel more, and other names for the rest.
TEST_F(KernelCompilationTest, CodeThatIsKeptIsTakenAndTheSame) {
  std::string one = rowSums("r0", 64, 48) + rowSums("r1", 64, 40),
              two = rowSums("other", 64, 32) + rowSums("s0", 64, 40) + rowSums("s1", 64, 48);
  auto first = parseSourceString<ModuleOp>(one, &context),
       second = parseSourceString<ModuleOp>(two, &context);
  ASSERT_TRUE(first && second) << errors;
  std::vector<char> alone = compile(*first), secondAlone = compile(*second);
  target::TemporaryFolder folder;
  std::string cache = folder.file("cache");
  setenv("DTC_KERNEL_CACHE", cache.c_str(), 1);
  auto entries = [&] {
    std::vector<std::filesystem::path> paths;
    for (const auto &entry : std::filesystem::directory_iterator(cache))
      if (entry.path().filename().string().starts_with("llvmcache-"))
        paths.push_back(entry.path());
    return paths;
  };
  EXPECT_EQ(compile(*first), alone);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(compile(*second), secondAlone);
  EXPECT_EQ(entries().size(), 3u);
  EXPECT_EQ(compile(*first), alone);
  EXPECT_NE(compile(*first, "x86-64-v2"), alone);
  EXPECT_EQ(entries().size(), 5u);
  // The kernels of all are now said to be those of the first entry.
  std::vector<std::filesystem::path> all = entries();
  for (size_t i = 1; i < all.size(); ++i)
    std::filesystem::copy_file(all[0], all[i], std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(compile(*first), alone);
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
