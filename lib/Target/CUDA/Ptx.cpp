#include "Ptx.h"

#include "dtc/Target/EmitCode.h"

#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

// Of the NVPTX back end; TargetSelect.h has only all targets at once.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace llvm;

namespace dtc::cuda {

/// The oldest version of PTX that has all that kernels use.
static constexpr const char *kPtxVersion = "+ptx70";

static Error error(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static Expected<std::unique_ptr<TargetMachine>> targetMachine() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const Target *found = TargetRegistry::lookupTarget(triple, message);
  if (!found)
    return error(message);
  std::unique_ptr<TargetMachine> machine(
      found->createTargetMachine(triple, kOldestArchitecture, kPtxVersion, TargetOptions(),
                                 std::nullopt, std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return error("LLVM has no back end for PTX");
  return machine;
}

Expected<std::vector<char>> compilePtx(target::TranslatedModule &translated) {
  auto machine = targetMachine();
  if (!machine)
    return machine.takeError();
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = false; // threads are the vectors
  return target::emitCode(*translated.module, **machine, OptimizationLevel::O3, tuning,
                          CodeGenFileType::AssemblyFile);
}

} // namespace dtc::cuda
