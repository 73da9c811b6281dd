// `test-run-kernels` compiles the kernels of a module, runs them on drawn inputs
// and compares with what the interpreter makes of their bodies. Each kernel is
// also run in two halves and with its results over its operands, which must
// give the same bits. With `time`, prints how long kernels take.
#include "../Kernels/KernelTest.h"

#include "dtc-rt/Program/PackageFormat.h"
#include "dtc/Target/CPU/CodeObject.h"

#include "llvm/Support/FileSystem.h"

#include <chrono>
#include <dlfcn.h>

using namespace mlir;
using namespace dtc;
using namespace dtc::test;

namespace {

/// Calls kernels of a shared object, each in some pieces of its extent.
class CpuRunner : public KernelRunner {
public:
  CpuRunner(void *handle, int pieces) : handle(handle), pieces(pieces) {}

  LogicalResult run(exec::KernelOp kernel, KernelBuffers &buffers,
                    ArrayRef<int64_t> over) override {
    void *symbol = dlsym(handle, kernel.getSymName().str().c_str());
    if (!symbol)
      return kernel.emitError("has no symbol in the code object");
    std::vector<char *> arguments;
    for (Buffer &buffer : buffers.inputs)
      arguments.push_back(buffer.data());
    for (auto [buffer, operand] : llvm::zip_equal(buffers.results, over))
      arguments.push_back(operand >= 0 ? arguments[operand] : buffer.data());
    Buffer scratch(kernel.getScratchBytes() + 64);
    int64_t extent = kernel.getExtent();
    for (int piece = 0; piece < pieces; ++piece) {
      int64_t begin = extent * piece / pieces, end = extent * (piece + 1) / pieces;
      if (begin < end)
        reinterpret_cast<rt::KernelFunction>(symbol)(arguments.data(), begin, end, scratch.data());
    }
    for (auto [buffer, operand] : llvm::zip_equal(buffers.results, over))
      if (operand >= 0)
        buffer = buffers.inputs[operand];
    return success();
  }

private:
  void *handle;
  int pieces;
};

struct RunKernelsPass : PassWrapper<RunKernelsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RunKernelsPass)

  RunKernelsPass() = default;
  RunKernelsPass(const RunKernelsPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-run-kernels"; }
  StringRef getDescription() const override {
    return "runs compiled kernels and compares with the interpreter";
  }

  void runOnOperation() override {
    cpu::CompileOptions options;
    options.cpu = cpu;
    auto before = std::chrono::steady_clock::now();
    cpu::KernelCompilation kernels(getContext(), options);
    FailureOr<target::CodeObject> code = compileAll(kernels, getOperation());
    if (failed(code))
      return signalPassFailure();
    if (time)
      llvm::outs() << code->symbols.size() << " kernels compiled in "
                   << std::chrono::duration<double, std::milli>(
                          std::chrono::steady_clock::now() - before)
                          .count()
                   << " ms\n";
    void *handle = load(code->files.front().bytes);
    if (!handle) {
      getOperation().emitError() << "cannot load the code object: " << dlerror();
      return signalPassFailure();
    }
    for (auto kernel : getOperation().getOps<exec::KernelOp>())
      if (failed(check(kernel, handle)))
        return signalPassFailure();
    dlclose(handle);
  }

private:
  void *load(const std::vector<char> &bytes) {
    SmallString<128> path;
    int descriptor;
    if (llvm::sys::fs::createTemporaryFile("kernels", "so", descriptor, path))
      return nullptr;
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true).write(bytes.data(), bytes.size());
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    llvm::sys::fs::remove(path);
    return handle;
  }

  LogicalResult check(exec::KernelOp kernel, void *handle) {
    DrawOptions options{seed, intLow, intBound, scale, tolerance, compare};
    CpuRunner whole(handle, 1), halves(handle, 2);
    FailureOr<std::vector<Buffer>> results = checkKernel(kernel, whole, options);
    if (failed(results))
      return failure();
    SmallVector<int64_t> apart(results->size(), -1), sharing = inPlaceOf(kernel);
    for (ArrayRef<int64_t> over : {ArrayRef(apart), ArrayRef(sharing)}) {
      KernelBuffers buffers = drawBuffers(kernel, options);
      if (failed(halves.run(kernel, buffers, over)))
        return failure();
      if (buffers.results != *results)
        return kernel.emitError("gives other bits in two halves");
    }
    if (time)
      report(kernel, whole, drawBuffers(kernel, options));
    return success();
  }

  void report(exec::KernelOp kernel, CpuRunner &runner, KernelBuffers buffers) {
    SmallVector<int64_t> apart(buffers.results.size(), -1);
    double best = 1e30;
    for (int i = 0; i < 20; ++i) {
      auto before = std::chrono::steady_clock::now();
      (void)runner.run(kernel, buffers, apart);
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
      best = std::min(best, took.count());
    }
    llvm::outs() << kernel.getSymName() << ": " << best << " ms\n";
  }

  Option<uint64_t> seed{*this, "seed", llvm::cl::init(0), llvm::cl::desc("of the inputs")};
  Option<int64_t> intLow{*this, "int-low", llvm::cl::init(-1),
                         llvm::cl::desc("least drawn integer")};
  Option<int64_t> intBound{*this, "int-bound", llvm::cl::init(8),
                           llvm::cl::desc("number of different integers drawn")};
  Option<double> scale{*this, "scale", llvm::cl::init(1.0), llvm::cl::desc("of drawn floats")};
  Option<double> tolerance{*this, "tolerance", llvm::cl::init(1e-5),
                           llvm::cl::desc("allowed error of f32 results")};
  Option<bool> time{*this, "time", llvm::cl::init(false), llvm::cl::desc("print run times")};
  Option<bool> compare{*this, "compare", llvm::cl::init(true),
                       llvm::cl::desc("with the interpreter")};
  Option<std::string> cpu{*this, "cpu", llvm::cl::desc("processor to compile for")};
};

} // namespace

namespace dtc::test {
void registerCpuTestPasses() { PassRegistration<RunKernelsPass>(); }
} // namespace dtc::test
