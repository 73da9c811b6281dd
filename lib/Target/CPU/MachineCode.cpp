#include "MachineCode.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <mutex>

using namespace llvm;

namespace dtc::cpu {

static Error error(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static std::string featureString(const Processor &processor) {
  std::string text;
  for (const std::string &feature : processor.features)
    text += (text.empty() ? "+" : ",+") + feature;
  return text;
}

static Expected<std::unique_ptr<TargetMachine>> targetMachine(const MachineOptions &options) {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  Triple triple(sys::getProcessTriple());
  std::string message;
  const llvm::Target *found = TargetRegistry::lookupTarget(triple, message);
  if (!found)
    return error(message);
  std::unique_ptr<TargetMachine> machine(found->createTargetMachine(
      triple, options.processor.name, featureString(options.processor), TargetOptions(),
      Reloc::PIC_, CodeModel::Small,
      options.optLevel >= 3 ? CodeGenOptLevel::Aggressive : CodeGenOptLevel::Default));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(options.processor.name))
    return error("unknown processor: " + options.processor.name);
  return machine;
}

static OptimizationLevel optimizationLevel(unsigned level) {
  switch (level) {
  case 0:
    return OptimizationLevel::O0;
  case 1:
    return OptimizationLevel::O1;
  case 2:
    return OptimizationLevel::O2;
  default:
    return OptimizationLevel::O3;
  }
}

static void optimize(Module &module, TargetMachine &machine, unsigned level) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.LoopInterleaving = level >= 2;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  ModulePassManager passes = level == 0
                                 ? builder.buildO0DefaultPipeline(OptimizationLevel::O0)
                                 : builder.buildPerModuleDefaultPipeline(optimizationLevel(level));
  passes.run(module, modules);
}

static void setAttributes(Module &module, const MachineOptions &options) {
  std::string features = featureString(options.processor);
  bool wide = llvm::is_contained(options.processor.features, "avx512f");
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", options.processor.name);
    function.addFnAttr("target-features", features);
    if (wide)
      function.addFnAttr("prefer-vector-width", "512");
    function.setDoesNotThrow();
    function.getArg(0)->addAttr(Attribute::NoAlias);
    function.getArg(0)->addAttr(Attribute::ReadOnly);
  }
}

static void dump(const std::string &path, StringRef bytes) {
  std::error_code code;
  raw_fd_ostream file(path, code);
  if (!code)
    file << bytes;
}

Expected<std::vector<char>> compileObject(target::TranslatedModule &translated,
                                          const MachineOptions &options) {
  auto machine = targetMachine(options);
  if (!machine)
    return machine.takeError();
  std::unique_ptr<Module> &llvmModule = translated.module;
  llvmModule->setDataLayout((*machine)->createDataLayout());
  llvmModule->setTargetTriple((*machine)->getTargetTriple());
  setAttributes(*llvmModule, options);
  optimize(*llvmModule, **machine, options.optLevel);
  if (!options.dumpPath.empty()) {
    std::string text;
    raw_string_ostream(text) << *llvmModule;
    dump(options.dumpPath + ".ll", text);
  }
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::ObjectFile,
                                      /*DisableVerify=*/true))
    return error("the target writes no object files");
  passes.run(*llvmModule);
  if (!options.dumpPath.empty())
    dump(options.dumpPath + ".o", stream.str());
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace dtc::cpu
