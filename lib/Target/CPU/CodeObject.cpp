#include "dtc/Target/CPU/CodeObject.h"
#include "LoopEmitter.h"
#include "MachineCode.h"

#include "dtc/Target/PartCompiler.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

static constexpr size_t kKernelsInPart = 4;

static std::string dumpPath(const CompileOptions &options, const Twine &name) {
  if (options.dumpDir.empty())
    return {};
  llvm::SmallString<128> path(options.dumpDir);
  llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, name);
  return std::string(path);
}

static FailureOr<func::FuncOp> emitKernel(exec::KernelOp kernel, OpBuilder &builder) {
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
  LoopEmitter emitter(info, *plan, builder);
  return emitter.emitFunction(kernel.getSymName());
}

static LogicalResult lowerToLLVM(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false); // once at the end, not after each
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createConvertMathToLibmPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return failed(passes.run(module)) ? failure() : verify(module);
}

static Processor processorOf(const CompileOptions &options) {
  return options.cpu.empty() ? hostProcessor() : Processor{options.cpu, options.features};
}

/// The loops of a kernel as text, the same for all kernels that have the same.
static std::string loopsOf(func::FuncOp function) {
  std::string name = function.getSymName().str(), text;
  function.setSymName("kernel");
  llvm::raw_string_ostream stream(text);
  function->print(stream, OpPrintingFlags().assumeVerified());
  function.setSymName(name);
  return text;
}

/// Kernels that are compiled together, in LLVM's IR.
static FailureOr<std::unique_ptr<target::TranslatedModule>>
translatePart(ModuleOp part, const std::string &dumpPath) {
  if (!dumpPath.empty()) {
    std::error_code code;
    llvm::raw_fd_ostream file(dumpPath + ".mlir", code);
    if (!code)
      file << *part;
  }
  if (failed(lowerToLLVM(part)))
    return failure();
  auto translated = target::translate(part);
  if (!translated)
    return failure();
  return translated;
}

struct KernelCompilation::State {
  explicit State(const CompileOptions &options)
      : options(options), compiler(processorOf(options)),
        parts(options.threads, [this](target::TranslatedModule &part, size_t number) {
          return compiler.compile(part, dumpPath(this->options, "kernels" + Twine(number)));
        }) {}

  CompileOptions options;
  ObjectCompiler compiler;
  std::vector<std::string> symbols;
  llvm::StringMap<std::string> compiled; ///< symbol of the first kernel with these loops
  std::vector<std::string> definitions;  ///< SAME=SYMBOL of the others
  OwningOpRef<ModuleOp> pending;         ///< the next part
  size_t kernelsPending = 0, partsHandedIn = 0;
  target::PartCompiler parts;
};

KernelCompilation::~KernelCompilation() = default;

KernelCompilation::KernelCompilation(MLIRContext &context, const CompileOptions &options)
    : state(std::make_unique<State>(options)) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect>();
}

LogicalResult KernelCompilation::add(exec::KernelOp kernel) {
  if (failed(verify(kernel)))
    return failure();
  if (!state->pending)
    state->pending = ModuleOp::create(kernel.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(state->pending->getBody());
  auto function = emitKernel(kernel, builder);
  if (failed(function))
    return failure();
  std::string symbol = kernel.getSymName().str();
  state->symbols.push_back(symbol);
  auto [first, isNew] = state->compiled.try_emplace(loopsOf(*function), symbol);
  if (!isNew) {
    state->definitions.push_back(symbol + "=" + first->second);
    function->erase();
    return success();
  }
  return ++state->kernelsPending == kKernelsInPart ? handIn() : success();
}

LogicalResult KernelCompilation::handIn() {
  std::string name = "kernels" + std::to_string(state->partsHandedIn++);
  auto part = translatePart(*state->pending, dumpPath(state->options, name));
  if (failed(part))
    return failure();
  state->pending = nullptr;
  state->kernelsPending = 0;
  state->parts.handIn(std::move(*part));
  return success();
}

LogicalResult KernelCompilation::close() {
  if (state->kernelsPending > 0 && failed(handIn()))
    return failure();
  state->parts.close();
  return success();
}

llvm::Expected<target::CodeObject> KernelCompilation::finish() {
  auto objects = state->parts.finish();
  if (!objects)
    return objects.takeError();
  if (state->symbols.empty()) // libraries do it all
    return target::CodeObject{{}, {}, recordedFeatures(state->compiler.processor.features), {}};
  auto linked = linkSharedObject(*objects, state->symbols, state->definitions);
  if (!linked)
    return linked.takeError();
  return target::CodeObject{{{"kernels.so", std::move(*linked)}},
                            state->symbols,
                            recordedFeatures(state->compiler.processor.features),
                            {}};
}

FailureOr<target::CodeObject> compileKernels(ModuleOp module, const CompileOptions &options) {
  KernelCompilation kernels(*module.getContext(), options);
  for (auto kernel : module.getOps<exec::KernelOp>())
    if (failed(kernels.add(kernel)))
      return failure();
  if (failed(kernels.close()))
    return failure();
  llvm::Expected<target::CodeObject> code = kernels.finish();
  if (!code)
    return module.emitError() << llvm::toString(code.takeError());
  return std::move(*code);
}

} // namespace dtc::cpu
