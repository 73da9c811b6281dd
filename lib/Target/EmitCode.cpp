#include "dtc/Target/EmitCode.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace dtc::target {

static void optimize(Module &module, TargetMachine &machine, OptimizationLevel level,
                     const PipelineTuningOptions &tuning) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(level).run(module, modules);
}

Expected<std::vector<char>> emitCode(Module &module, TargetMachine &machine,
                                     OptimizationLevel level, const PipelineTuningOptions &tuning,
                                     CodeGenFileType type) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple());
  optimize(module, machine, level, tuning);
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    return createStringError("LLVM's back end can't write " +
                             Twine(type == CodeGenFileType::ObjectFile ? "object files" : "text"));
  passes.run(module);
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace dtc::target
