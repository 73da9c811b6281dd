// `test-emit-ptx` prints the PTX of a module's kernels. `test-run-cuda-kernels` runs them through
// CUDA's driver (the library of DTC_CUDA_LIBRARY_PATH, else the machine's), on drawn inputs. It
// compares with what the interpreter makes of their bodies. With their results over their operands
// they must give the same bits.
#include "../Kernels/KernelTest.h"

#include "dtc-cuda/Driver.h"
#include "dtc/Target/CUDA/CodeObject.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace mlir;
using namespace dtc;
using namespace dtc::test;

namespace {

/// The PTX of all kernels of the module.
FailureOr<std::string> compilePtx(ModuleOp module) {
  cuda::KernelCompilation kernels(*module.getContext(), {});
  FailureOr<target::CodeObject> code = compileAll(kernels, module);
  if (failed(code))
    return failure();
  if (code->files.empty())
    return std::string();
  return std::string(code->files[0].bytes.begin(), code->files[0].bytes.end());
}

struct EmitPtxPass : PassWrapper<EmitPtxPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmitPtxPass)

  StringRef getArgument() const override { return "test-emit-ptx"; }
  StringRef getDescription() const override { return "prints the PTX of kernels"; }

  void runOnOperation() override {
    FailureOr<std::string> ptx = compilePtx(getOperation());
    if (failed(ptx))
      return signalPassFailure();
    llvm::outs() << *ptx;
  }
};

/// Functions of CUDA's driver, by name.
struct Driver {
  bool open() {
    const char *folder = std::getenv("DTC_CUDA_LIBRARY_PATH");
    std::string path = (folder ? std::string(folder) + "/" : "") + "libcuda.so.1";
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle != nullptr;
  }

  template <typename... Arguments> cuda::CUresult call(const char *name, Arguments... arguments) {
    auto function = reinterpret_cast<cuda::CUresult (*)(Arguments...)>(dlsym(handle, name));
    cuda::CUresult result = function ? function(arguments...) : cuda::CUDA_ERROR_NOT_FOUND;
    if (result != cuda::CUDA_SUCCESS && failed.empty())
      failed = std::string(name) + ": " + std::to_string(result);
    return result;
  }

  void *handle = nullptr;
  std::string failed; ///< the first call that did
};

class CudaRunner : public KernelRunner {
public:
  /// Loads the kernels; `driver.failed` says whether that did.
  CudaRunner(Driver &driver, const std::string &ptx) : driver(driver) {
    cuda::CUdevice device = 0;
    cuda::CUcontext context = nullptr;
    driver.call("cuInit", 0u);
    driver.call("cuDeviceGet", &device, 0);
    driver.call("cuDevicePrimaryCtxRetain", &context, device);
    driver.call("cuCtxSetCurrent", context);
    driver.call("cuModuleLoadDataEx", &module, static_cast<const void *>(ptx.c_str()), 0u,
                static_cast<cuda::CUjit_option *>(nullptr), static_cast<void **>(nullptr));
    driver.call("cuStreamCreate", &stream, unsigned(cuda::CU_STREAM_NON_BLOCKING));
  }

  LogicalResult run(exec::KernelOp kernel, KernelBuffers &buffers,
                    ArrayRef<int64_t> over) override {
    cuda::CUfunction function = nullptr;
    driver.call("cuModuleGetFunction", &function, module, kernel.getSymName().str().c_str());
    std::vector<cuda::CUdeviceptr> places;
    for (const Buffer &buffer : buffers.inputs)
      places.push_back(copyIn(buffer));
    for (auto [buffer, operand] : llvm::zip_equal(buffers.results, over))
      places.push_back(operand >= 0 ? places[operand] : copyIn(buffer));
    std::vector<void *> parameters;
    for (cuda::CUdeviceptr &place : places)
      parameters.push_back(&place);
    exec::GeometryAttr geometry = kernel.getGeometryAttr();
    if (geometry.getSharedBytes() > 0)
      driver.call("cuFuncSetAttribute", function,
                  cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                  static_cast<int>(geometry.getSharedBytes()));
    driver.call("cuLaunchKernel", function, unsigned(geometry.getBlocks()), 1u, 1u,
                unsigned(geometry.getThreads()), 1u, 1u, unsigned(geometry.getSharedBytes()),
                stream, parameters.data(), static_cast<void **>(nullptr));
    driver.call("cuStreamSynchronize", stream);
    for (auto [i, buffer] : llvm::enumerate(buffers.results))
      driver.call("cuMemcpyDtoHAsync_v2", static_cast<void *>(buffer.data()),
                  places[buffers.inputs.size() + i], buffer.size(), stream);
    driver.call("cuStreamSynchronize", stream);
    for (auto [i, place] : llvm::enumerate(places))
      if (i < buffers.inputs.size() || over[i - buffers.inputs.size()] < 0)
        driver.call("cuMemFree_v2", place);
    if (!driver.failed.empty())
      return kernel.emitError("cannot be run, ") << driver.failed;
    return success();
  }

private:
  cuda::CUdeviceptr copyIn(const Buffer &buffer) {
    cuda::CUdeviceptr place = 0;
    driver.call("cuMemAlloc_v2", &place, buffer.size());
    driver.call("cuMemcpyHtoDAsync_v2", place, static_cast<const void *>(buffer.data()),
                buffer.size(), stream);
    return place;
  }

  Driver &driver;
  cuda::CUmodule module = nullptr;
  cuda::CUstream stream = nullptr;
};

struct RunCudaKernelsPass : PassWrapper<RunCudaKernelsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RunCudaKernelsPass)

  RunCudaKernelsPass() = default;
  RunCudaKernelsPass(const RunCudaKernelsPass &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-run-cuda-kernels"; }
  StringRef getDescription() const override {
    return "runs compiled kernels on a GPU and compares with the interpreter";
  }

  void runOnOperation() override {
    FailureOr<std::string> ptx = compilePtx(getOperation());
    if (failed(ptx))
      return signalPassFailure();
    Driver driver;
    if (!driver.open()) {
      getOperation().emitError() << "no driver of CUDA: " << dlerror();
      return signalPassFailure();
    }
    CudaRunner runner(driver, *ptx);
    if (!driver.failed.empty()) {
      getOperation().emitError() << "the driver takes no kernels, " << driver.failed;
      return signalPassFailure();
    }
    DrawOptions options{seed, intLow, intBound, scale, tolerance, true};
    for (auto kernel : getOperation().getOps<exec::KernelOp>()) {
      FailureOr<std::vector<Buffer>> results = checkKernel(kernel, runner, options);
      if (failed(results))
        return signalPassFailure();
      if (digest)
        llvm::outs() << kernel.getSymName() << ": "
                     << llvm::utohexstr(llvm::xxh3_64bits(
                            StringRef(results->front().data(), results->front().size())))
                     << "\n";
    }
  }

private:
  Option<uint64_t> seed{*this, "seed", llvm::cl::init(0), llvm::cl::desc("of the inputs")};
  Option<int64_t> intLow{*this, "int-low", llvm::cl::init(-1),
                         llvm::cl::desc("least drawn integer")};
  Option<int64_t> intBound{*this, "int-bound", llvm::cl::init(8),
                           llvm::cl::desc("number of different integers drawn")};
  Option<double> scale{*this, "scale", llvm::cl::init(1.0), llvm::cl::desc("of drawn floats")};
  Option<bool> digest{*this, "digest", llvm::cl::init(false),
                      llvm::cl::desc("prints a hash of each kernel's first result")};
  Option<double> tolerance{*this, "tolerance", llvm::cl::init(1e-5),
                           llvm::cl::desc("allowed error of f32 results")};
};

} // namespace

namespace dtc::test {
void registerCudaTestPasses() {
  PassRegistration<EmitPtxPass>();
  PassRegistration<RunCudaKernelsPass>();
}
} // namespace dtc::test
