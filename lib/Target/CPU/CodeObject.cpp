#include "dtc/Target/CPU/CodeObject.h"
#include "LoopEmitter.h"
#include "MachineCode.h"

#include "dtc/Target/PartCompiler.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

/// The function of a part; kernels with the same loops have different names.
static constexpr StringRef kLoopsName = "loops";

/// The loops of a kernel, in a module of their own.
static FailureOr<OwningOpRef<ModuleOp>> emitLoops(exec::KernelOp kernel) {
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
  OwningOpRef<ModuleOp> loops = ModuleOp::create(kernel.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(loops->getBody());
  LoopEmitter emitter(info, *plan, builder);
  if (failed(emitter.emitFunction(kLoopsName)))
    return failure();
  return loops;
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

struct KernelCompilation::State {
  explicit State(const CompileOptions &options)
      : compiler(processorOf(options)),
        parts(options.threads, {compiler.code(), lowerToLLVM,
                                [this](auto &part) { return compiler.compile(part); }}) {}

  ObjectCompiler compiler;
  std::vector<std::string> symbols;
  std::vector<std::string> ofParts;     ///< by part: the symbol of the first kernel that has it
  std::vector<std::string> definitions; ///< SAME=SYMBOL of the others
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
  FailureOr<OwningOpRef<ModuleOp>> loops = emitLoops(kernel);
  if (failed(loops))
    return failure();
  FailureOr<size_t> part = state->parts.handIn(**loops);
  if (failed(part))
    return failure();
  std::string symbol = kernel.getSymName().str();
  state->symbols.push_back(symbol);
  if (*part == state->ofParts.size())
    state->ofParts.push_back(symbol);
  else
    state->definitions.push_back(symbol + "=" + state->ofParts[*part]);
  return success();
}

LogicalResult KernelCompilation::close() {
  state->parts.close();
  return success();
}

/// Of all parts, each with its symbol.
llvm::Expected<std::vector<std::vector<char>>> KernelCompilation::finishObjects() {
  auto objects = state->parts.finish();
  if (!objects)
    return objects.takeError();
  for (auto [object, symbol] : llvm::zip_equal(*objects, state->ofParts)) {
    auto renamed = renameSymbol(object, kLoopsName, symbol);
    if (!renamed)
      return renamed.takeError();
    object = std::move(*renamed);
  }
  return objects;
}

llvm::Expected<target::CodeObject> KernelCompilation::finish() {
  auto objects = finishObjects();
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
