#include "dtc/Target/CPU/CodeObject.h"
#include "LoopEmitter.h"
#include "MachineCode.h"

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

static std::shared_ptr<ObjectCompiler> compilerFor(const CompileOptions &options) {
  return std::make_shared<ObjectCompiler>(
      options.cpu.empty() ? hostProcessor() : Processor{options.cpu, options.features});
}

KernelCompilation::KernelCompilation(unsigned threads, std::shared_ptr<ObjectCompiler> compiler)
    : PartwiseCompilation(threads, {compiler->code(), lowerToLLVM,
                                    [compiler](auto &part) { return compiler->compile(part); }}),
      compiler(compiler) {}

KernelCompilation::KernelCompilation(MLIRContext &context, const CompileOptions &options)
    : KernelCompilation(options.threads, compilerFor(options)) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect>();
}

/// Its loops.
FailureOr<OwningOpRef<ModuleOp>> KernelCompilation::emit(exec::KernelOp kernel) const {
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

/// A part has the symbol of the first kernel that it belongs to, and the others are defined as
/// that.
llvm::Expected<target::CodeObject>
KernelCompilation::link(std::vector<std::vector<char>> objects) const {
  std::vector<std::string> features = recordedFeatures(compiler->processor.features);
  if (symbols.empty()) // libraries do it all
    return target::CodeObject{{}, {}, std::move(features), {}};
  std::vector<std::string> ofParts, definitions; // SAME=SYMBOL
  for (auto [symbol, part] : llvm::zip_equal(symbols, partOf))
    if (part == ofParts.size())
      ofParts.push_back(symbol);
    else
      definitions.push_back(symbol + "=" + ofParts[part]);
  for (auto [object, symbol] : llvm::zip_equal(objects, ofParts)) {
    auto renamed = renameSymbol(object, kLoopsName, symbol);
    if (!renamed)
      return renamed.takeError();
    object = std::move(*renamed);
  }
  auto linked = linkSharedObject(objects, symbols, definitions);
  if (!linked)
    return linked.takeError();
  return target::CodeObject{{{"kernels.so", std::move(*linked)}}, symbols, std::move(features), {}};
}

} // namespace dtc::cpu
