#include "dtc/Target/CUDA/CodeObject.h"
#include "Ptx.h"
#include "Ptxas.h"
#include "ThreadEmitter.h"

#include "dtc/Target/KernelCache.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ThreadPool.h"

#include <map>

using namespace mlir;

namespace dtc::cuda {

/// Its threads.
FailureOr<OwningOpRef<ModuleOp>> KernelCompilation::emit(exec::KernelOp kernel) const {
  Block &body = kernel.getBody().front();
  FailureOr<KernelPlan> plan = planKernel(body);
  if (failed(plan))
    return failure();
  exec::GeometryAttr geometry = kernel.getGeometryAttr();
  if (!geometry || geometry.getBlocks() != plan->blocks || geometry.getThreads() != plan->threads ||
      geometry.getSharedBytes() != plan->sharedBytes)
    return kernel.emitError("geometry differs from that of its threads: ")
           << plan->blocks << " blocks of " << plan->threads;
  BodyInfo info(body);
  OwningOpRef<ModuleOp> threads = ModuleOp::create(kernel.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(threads->getBody());
  ThreadEmitter emitter(info, *plan, builder);
  if (failed(emitter.emitFunction(kStandIn)))
    return failure();
  return threads;
}

static LogicalResult lowerToLLVM(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false); // once at the end, not after each
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return failed(passes.run(module)) ? failure() : verify(module);
}

KernelCompilation::KernelCompilation(MLIRContext &context, const CompileOptions &options)
    : PartwiseCompilation(options.threads, {"PTX", lowerToLLVM, compilePtx}), options(options) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context
      .loadDialect<LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect, cf::ControlFlowDialect>();
}

static std::vector<char> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

namespace {

/// By architecture and the kernel's text.
struct Assembled {
  std::vector<char> cubin;
  std::string failure; ///< empty where there is none
};
using AssembledKernels = std::map<std::pair<StringRef, StringRef>, Assembled>;

} // namespace

/// As it was kept, else as ptxas makes it.
static Cubin cubinOf(const PtxKernel &kernel, const std::string &architecture,
                     const std::string &ptxas, target::KernelCache &cache) {
  /// Another text where `assemble` makes other cubins of the same kernels.
  constexpr StringRef how = "cubin without spills";
  const std::string key = target::KernelCache::keyOf(
      {how, target::KernelCache::identityOf(ptxas), architecture, kernel.ptx});
  if (auto kept = cache.find(key))
    return std::move(*kept);
  Cubin made = assemble(ptxas, kernel, architecture);
  if (made)
    cache.keep(key, *made);
  return made;
}

/// Kernels with the same text are assembled once, each by a ptxas of its own: a cubin of several
/// could only be kept as a whole.
static AssembledKernels assembleAll(const std::string &ptxas, ArrayRef<PtxKernel> kernels,
                                    const CompileOptions &options) {
  target::KernelCache cache;
  AssembledKernels all;
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(options.threads));
  for (const std::string &architecture : options.architectures)
    for (const PtxKernel &kernel : kernels)
      if (auto [entry, isNew] = all.try_emplace({architecture, kernel.ptx}); isNew)
        pool.async([&cache, &ptxas, &kernel, &architecture, &made = entry->second] {
          if (Cubin cubin = cubinOf(kernel, architecture, ptxas, cache))
            made.cubin = std::move(*cubin);
          else
            made.failure = llvm::toString(cubin.takeError());
        });
  pool.wait();
  return all;
}

/// "sm_90/rows_3.cubin" and so on; the first failure, where there are any.
static llvm::Expected<std::vector<target::CodeFile>>
cubinsOf(const std::string &ptxas, ArrayRef<PtxKernel> kernels, const CompileOptions &options) {
  AssembledKernels all = assembleAll(ptxas, kernels, options);
  std::vector<target::CodeFile> files;
  for (const std::string &architecture : options.architectures)
    for (const PtxKernel &kernel : kernels) {
      const Assembled &made = all.at({architecture, kernel.ptx});
      if (!made.failure.empty())
        return llvm::createStringError(made.failure);
      std::vector<char> cubin = made.cubin;
      if (llvm::Error error = nameKernel(cubin, kernel.name))
        return error;
      files.push_back({architecture + "/" + kernel.name + ".cubin", std::move(cubin)});
    }
  return files;
}

llvm::Expected<target::CodeObject>
KernelCompilation::link(std::vector<std::vector<char>> parts) const {
  target::CodeObject code;
  code.symbols = symbols;
  code.features = {kOldestArchitecture};
  if (code.symbols.empty()) // libraries do it all
    return code;
  std::vector<PtxKernel> kernels;
  for (auto [symbol, part] : llvm::zip_equal(symbols, partOf))
    kernels.emplace_back(symbol, StringRef(parts[part].data(), parts[part].size()));
  code.files.push_back({"kernels.ptx", bytesOf(joinPtx(kernels))});
  std::string ptxas = findPtxas();
  if (ptxas.empty()) {
    code.warning = "ptxas isn't found (DTC_PTXAS, PATH, CUDA_HOME): the artifact has PTX alone, "
                   "which the driver compiles at the start of each run";
    return code;
  }
  auto cubins = cubinsOf(ptxas, kernels, options);
  if (!cubins)
    return cubins.takeError();
  llvm::move(*cubins, std::back_inserter(code.files));
  return code;
}

} // namespace dtc::cuda
