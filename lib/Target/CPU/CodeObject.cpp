#include "dtc/Target/CPU/CodeObject.h"
#include "Emitter.h"
#include "MachineCode.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <atomic>
#include <thread>

using namespace mlir;

namespace dtc::cpu {

static constexpr size_t kKernelsInPart = 4, kMostParts = 16;

static std::string dumpPath(const CompileOptions &options, const Twine &name) {
  if (options.dumpDir.empty())
    return {};
  llvm::SmallString<128> path(options.dumpDir);
  llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, name);
  return std::string(path);
}

static LogicalResult emitKernel(exec::KernelOp kernel, OpBuilder &builder) {
  Block &body = kernel.getBody().front();
  FailureOr<KernelPlan> plan = planKernel(body);
  if (failed(plan))
    return failure();
  if (plan->extent != static_cast<int64_t>(kernel.getExtent()) && !kernel.getFlat())
    return kernel.emitError("extent differs from that of its loops: ") << plan->extent;
  if (plan->scratchBytes > static_cast<int64_t>(kernel.getScratchBytes()))
    return kernel.emitError("scratch is too small, its loops need ") << plan->scratchBytes;
  if (kernel.getFlat() && !plan->flat)
    return kernel.emitError("is not elementwise but marked flat");
  BodyInfo info(body);
  Emitter emitter(info, *plan, builder);
  return emitter.emitFunction(kernel.getSymName());
}

static LogicalResult lowerToLLVM(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createConvertMathToLibmPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

static MachineOptions machineOptions(const CompileOptions &options) {
  MachineOptions machine;
  machine.optLevel = options.optLevel;
  machine.processor = options.cpu.empty() ? hostProcessor()
                                          : Processor{options.cpu, options.features};
  return machine;
}

/// Objects of `parts`, each compiled by a thread of its own.
static FailureOr<std::vector<std::vector<char>>>
compileParts(ArrayRef<OwningOpRef<ModuleOp>> parts, const CompileOptions &options) {
  std::vector<std::vector<char>> objects(parts.size());
  std::vector<std::string> errors(parts.size());
  auto compilePart = [&](size_t i) {
    MachineOptions machine = machineOptions(options);
    machine.dumpPath = dumpPath(options, "kernels" + Twine(i));
    auto object = compileObject(*parts[i], machine);
    if (object)
      objects[i] = std::move(*object);
    else
      errors[i] = llvm::toString(object.takeError());
  };
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++)
      compilePart(i);
  };
  size_t numThreads = options.threads ? options.threads : std::thread::hardware_concurrency();
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(numThreads, parts.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (auto [part, message] : llvm::zip(parts, errors))
    if (!message.empty())
      return (*part)->emitError() << message;
  return objects;
}

static FailureOr<std::vector<OwningOpRef<ModuleOp>>> emitParts(ArrayRef<exec::KernelOp> kernels,
                                                               size_t numParts, Location loc) {
  std::vector<OwningOpRef<ModuleOp>> parts;
  for (size_t i = 0; i < numParts; ++i)
    parts.push_back(ModuleOp::create(loc));
  for (auto [i, kernel] : llvm::enumerate(kernels)) {
    OpBuilder builder = OpBuilder::atBlockEnd(parts[i % numParts]->getBody());
    if (failed(emitKernel(kernel, builder)))
      return failure();
  }
  return parts;
}

FailureOr<CodeObject> compileKernels(ModuleOp module, const CompileOptions &options) {
  MLIRContext *context = module.getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  context->loadDialect<LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect>();

  CodeObject code;
  SmallVector<exec::KernelOp> kernels(module.getOps<exec::KernelOp>());
  for (exec::KernelOp kernel : kernels)
    code.symbols.push_back(kernel.getSymName().str());
  // The same parts on every machine, however many threads it has.
  size_t numParts = std::clamp<size_t>(kernels.size() / kKernelsInPart, 1, kMostParts);
  auto parts = emitParts(kernels, numParts, module.getLoc());
  if (failed(parts))
    return failure();
  for (auto [i, part] : llvm::enumerate(*parts)) {
    if (std::string path = dumpPath(options, "kernels" + Twine(i) + ".mlir"); !path.empty()) {
      std::error_code code;
      llvm::raw_fd_ostream file(path, code);
      if (!code)
        file << **part;
    }
    if (failed(lowerToLLVM(*part)))
      return failure();
  }
  auto objects = compileParts(*parts, options);
  if (failed(objects))
    return failure();
  auto linked = linkSharedObject(*objects, code.symbols);
  if (!linked)
    return module.emitError() << llvm::toString(linked.takeError());
  code.sharedObject = std::move(*linked);
  Processor processor = machineOptions(options).processor;
  code.cpu = processor.name;
  code.features = recordedFeatures(processor.features);
  return code;
}

} // namespace dtc::cpu
