// `test-run-kernels` compiles the kernels of a module, runs them on drawn inputs
// and compares with what the interpreter makes of their bodies. Each kernel is
// also run in two halves and with its results over its operands, which must
// give the same bits. With `time`, prints how long kernels take.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Interpreter/Interpreter.h"
#include "dtc/Target/CPU/CodeObject.h"
#include "dtc-rt/PackageFormat.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FileSystem.h"

#include <chrono>
#include <cstring>
#include <dlfcn.h>

using namespace mlir;
using namespace dtc;
using namespace dtc::interpreter;

namespace {

using Buffer = std::vector<char>;

int64_t bytesOf(Type element) { return (element.getIntOrFloatBitWidth() + 7) / 8; }

Buffer toBuffer(const Tensor &tensor) {
  Type element = tensor.type.getElementType();
  int64_t size = bytesOf(element);
  Buffer buffer(tensor.size() * size);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = tensor.isFloat() ? 0 : tensor.ints[i];
    if (auto type = dyn_cast<FloatType>(element)) {
      APFloat value(tensor.floats[i]);
      bool lossy;
      value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
      bits = value.bitcastToAPInt().getZExtValue();
    }
    std::memcpy(buffer.data() + i * size, &bits, size);
  }
  return buffer;
}

Tensor fromBuffer(const Buffer &buffer, RankedTensorType tensorType) {
  Tensor tensor(tensorType);
  Type element = tensorType.getElementType();
  int64_t size = bytesOf(element);
  unsigned width = element.getIntOrFloatBitWidth();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, buffer.data() + i * size, size);
    if (auto type = dyn_cast<FloatType>(element)) {
      APFloat value(type.getFloatSemantics(), APInt(width, bits));
      bool lossy;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      tensor.floats[i] = value.convertToDouble();
    } else {
      tensor.ints[i] = width == 1 ? bits & 1 : APInt(width, bits, false, true).getSExtValue();
    }
  }
  return tensor;
}

double toleranceOf(Type element, double ofFloats) {
  if (element.isBF16())
    return 1e-2;
  if (element.isF16())
    return 2e-3;
  if (element.isF64())
    return 1e-11;
  return isa<FloatType>(element) ? ofFloats : 0.0;
}

/// What is too large for the tensor's type becomes its infinity, as in the program.
void overflow(Tensor &exact) {
  Tensor rounded = exact;
  roundToType(rounded);
  for (auto [value, inType] : llvm::zip_equal(exact.floats, rounded.floats))
    if (std::isinf(inType))
      value = inType;
}

/// The kernel's body as a function.
func::FuncOp asFunction(exec::KernelOp kernel, ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Block &body = kernel.getBody().front();
  auto type = builder.getFunctionType(body.getArgumentTypes(), kernel.getYield().getOperandTypes());
  auto func = func::FuncOp::create(builder, kernel.getLoc(), kernel.getSymName(), type);
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(body.getArguments(), entry->getArguments());
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> results;
  for (Value value : kernel.getYield().getValues())
    results.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, kernel.getLoc(), results);
  return func;
}

/// One kernel with its inputs.
struct Trial {
  exec::KernelOp kernel;
  rt::KernelFunction function;
  std::vector<Buffer> inputs, results;
  SmallVector<int64_t> inPlace;

  void run(bool sharing, int pieces) {
    std::vector<char *> arguments;
    for (Buffer &buffer : inputs)
      arguments.push_back(buffer.data());
    for (auto [i, buffer] : llvm::enumerate(results)) {
      int64_t over = sharing && i < inPlace.size() ? inPlace[i] : -1;
      arguments.push_back(over >= 0 ? arguments[over] : buffer.data());
    }
    Buffer scratch(kernel.getScratchBytes() + 64);
    int64_t extent = kernel.getExtent();
    for (int piece = 0; piece < pieces; ++piece) {
      int64_t begin = extent * piece / pieces, end = extent * (piece + 1) / pieces;
      if (begin < end)
        function(arguments.data(), begin, end, scratch.data());
    }
    for (auto [i, buffer] : llvm::enumerate(results))
      if (sharing && i < inPlace.size() && inPlace[i] >= 0)
        buffer = inputs[inPlace[i]];
  }
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
    options.dumpDir = dumpDir;
    options.cpu = cpu;
    auto before = std::chrono::steady_clock::now();
    FailureOr<target::CodeObject> code = cpu::compileKernels(getOperation(), options);
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

  SmallVector<int64_t> inPlaceOf(exec::KernelOp kernel) {
    SmallVector<int64_t> inPlace;
    getOperation().walk([&](exec::LaunchOp launch) {
      if (launch.getKernel() == kernel.getSymName())
        inPlace.assign(launch.getInPlace().begin(), launch.getInPlace().end());
    });
    return inPlace;
  }

  LogicalResult check(exec::KernelOp kernel, void *handle) {
    void *symbol = dlsym(handle, kernel.getSymName().str().c_str());
    if (!symbol)
      return kernel.emitError("has no symbol in the code object");
    OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
    func::FuncOp func = asFunction(kernel, *module);
    Tensors inputs;
    std::vector<Buffer> buffers;
    for (Type type : func.getArgumentTypes()) {
      inputs.push_back(randomTensor(cast<RankedTensorType>(type), seed + inputs.size(), intBound));
      for (int64_t &value : inputs.back().ints)
        if (!inputs.back().type.getElementType().isInteger(1))
          value += intLow;
      for (double &value : inputs.back().floats)
        value *= scale;
      roundToType(inputs.back());
      buffers.push_back(toBuffer(inputs.back()));
    }
    Trial trial{kernel, reinterpret_cast<rt::KernelFunction>(symbol), buffers, {},
                inPlaceOf(kernel)};
    for (Type type : func.getResultTypes())
      trial.results.emplace_back(cast<RankedTensorType>(type).getNumElements() *
                                     bytesOf(getElementTypeOrSelf(type)),
                                 0x55);
    trial.run(/*sharing=*/false, 1);
    std::vector<Buffer> whole = trial.results;
    if (time)
      report(trial);
    if (compare) {
      FailureOr<Tensors> rounded = evaluate(func, inputs);
      FailureOr<Tensors> exact = evaluate(func, inputs, Numerics::Double);
      if (failed(rounded) || failed(exact))
        return failure();
      for (auto [i, tensor] : llvm::enumerate(*exact)) {
        overflow(tensor);
        // Where the program's own roundings are magnified, the kernel's are as well.
        double allowed = toleranceOf(tensor.type.getElementType(), tolerance) +
                         4 * maxDifference((*rounded)[i], tensor);
        double difference = std::min(maxDifference(fromBuffer(whole[i], tensor.type), tensor),
                                     maxDifference(fromBuffer(whole[i], tensor.type),
                                                   (*rounded)[i]));
        if (!(difference <= allowed))
          return kernel.emitError("result ") << i << " differs by " << difference;
      }
    }
    for (bool sharing : {false, true}) {
      trial.inputs = buffers;
      trial.run(sharing, 2);
      if (trial.results != whole)
        return kernel.emitError(sharing ? "gives other bits over its operands"
                                        : "gives other bits in two halves");
    }
    return success();
  }

  void report(Trial &trial) {
    double best = 1e30;
    for (int i = 0; i < 20; ++i) {
      auto before = std::chrono::steady_clock::now();
      trial.run(/*sharing=*/false, 1);
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
      best = std::min(best, took.count());
    }
    llvm::outs() << trial.kernel.getSymName() << ": " << best << " ms\n";
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
  Option<std::string> dumpDir{*this, "dump", llvm::cl::desc("folder for intermediate files")};
};

} // namespace

namespace dtc::test {
void registerCpuTestPasses() { PassRegistration<RunKernelsPass>(); }
} // namespace dtc::test
