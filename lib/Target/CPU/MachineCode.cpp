#include "MachineCode.h"

#include "dtc/Target/EmitCode.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/ObjCopy/CommonConfig.h"
#include "llvm/ObjCopy/ELF/ELFConfig.h"
#include "llvm/ObjCopy/ELF/ELFObjcopy.h"
#include "llvm/Object/ELFObjectFile.h"
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

static Expected<std::unique_ptr<TargetMachine>> targetMachine(const Processor &processor) {
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
  std::unique_ptr<TargetMachine> machine(
      found->createTargetMachine(triple, processor.name, featureString(processor), TargetOptions(),
                                 Reloc::PIC_, CodeModel::Small, CodeGenOptLevel::Aggressive));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(processor.name))
    return error("unknown processor: " + processor.name);
  return machine;
}

static void setAttributes(Module &module, const Processor &processor) {
  std::string features = featureString(processor);
  bool wide = llvm::is_contained(processor.features, "avx512f");
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", processor.name);
    function.addFnAttr("target-features", features);
    if (wide)
      function.addFnAttr("prefer-vector-width", "512");
    function.setDoesNotThrow();
    function.getArg(0)->addAttr(Attribute::NoAlias);
    function.getArg(0)->addAttr(Attribute::ReadOnly);
  }
}

ObjectCompiler::ObjectCompiler(Processor processor) : processor(std::move(processor)) {}

std::string ObjectCompiler::code() const {
  return "object for " + processor.name + " " + featureString(processor);
}

ObjectCompiler::~ObjectCompiler() = default;

Expected<std::unique_ptr<TargetMachine>> ObjectCompiler::takeMachine() {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      auto machine = std::move(idle.back());
      idle.pop_back();
      return machine;
    }
  }
  return targetMachine(processor);
}

Expected<std::vector<char>> ObjectCompiler::compile(target::TranslatedModule &translated) {
  auto machine = takeMachine();
  if (!machine)
    return machine.takeError();
  Module &module = *translated.module;
  setAttributes(module, processor);
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.LoopInterleaving = true;
  auto object = target::emitCode(module, **machine, OptimizationLevel::O2, tuning,
                                 CodeGenFileType::ObjectFile);
  std::lock_guard lock(mutex);
  idle.push_back(std::move(*machine));
  return object;
}

Expected<std::vector<char>> renameSymbol(ArrayRef<char> object, StringRef from, StringRef to) {
  auto file = object::ObjectFile::createELFObjectFile(
      MemoryBufferRef(StringRef(object.data(), object.size()), "kernel"));
  if (!file)
    return file.takeError();
  objcopy::CommonConfig config{};
  config.SymbolsToRename[from] = to;
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  if (Error failed = objcopy::elf::executeObjcopyOnBinary(
          config, objcopy::ELFConfig(), cast<object::ELFObjectFileBase>(**file), stream))
    return failed;
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace dtc::cpu
