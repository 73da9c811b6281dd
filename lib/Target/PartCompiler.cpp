#include "dtc/Target/PartCompiler.h"
#include "dtc/Target/KernelCache.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

using namespace mlir;

namespace dtc::target {

TranslatedModule::TranslatedModule() : context(std::make_unique<llvm::LLVMContext>()) {}
TranslatedModule::~TranslatedModule() = default;

/// Null with a diagnostic where that fails.
static std::unique_ptr<TranslatedModule> translate(ModuleOp module) {
  auto translated = std::make_unique<TranslatedModule>();
  translated->module = translateModuleToLLVMIR(module, *translated->context, "kernels");
  if (translated->module)
    return translated;
  module.emitError() << "kernels cannot be translated to LLVM IR";
  return nullptr;
}

static std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().assumeVerified());
  return text;
}

namespace {

struct Part {
  std::string key;
  std::unique_ptr<TranslatedModule> module; ///< null: it was kept, or is compiled by now
  std::vector<char> code;
  std::string error;
  bool isNew = false;
};

} // namespace

/// Parts are compiled by whoever is free, in the order in which they were handed in.
struct PartCompiler::State {
  State(unsigned threads, PartMethod method) : most(threads), method(std::move(method)) {}

  ~State() {
    {
      std::lock_guard lock(mutex);
      next = parts.size();
    }
    close();
    join();
  }

  std::string keyOf(ModuleOp module) const {
    static const std::string compiler = KernelCache::compilerIdentity();
    return KernelCache::keyOf({method.code, compiler, textOf(module)});
  }

  void add(Part part) {
    const bool isWork = part.module != nullptr;
    {
      std::lock_guard lock(mutex);
      parts.push_back(std::move(part));
    }
    if (!isWork)
      return;
    changed.notify_one();
    if (threads.size() + 1 < most) // one is who calls `finish`
      threads.emplace_back([this] { work(); });
  }

  void close() {
    std::lock_guard lock(mutex);
    isClosed = true;
    changed.notify_all();
  }

  /// The first that nobody compiles yet; null where there is none by now.
  Part *take() {
    while (next < parts.size())
      if (Part &part = parts[next++]; part.module)
        return &part;
    return nullptr;
  }

  /// Compiles until nothing is left.
  void work() {
    for (std::unique_lock lock(mutex);;) {
      Part *part = nullptr;
      changed.wait(lock, [&] { return (part = take()) || isClosed; });
      if (!part)
        return;
      lock.unlock();
      auto code = method.compile(*part->module);
      part->module.reset();
      part->isNew = bool(code);
      if (code)
        part->code = std::move(*code);
      else
        part->error = llvm::toString(code.takeError());
      lock.lock();
    }
  }

  void join() {
    for (std::thread &thread : threads)
      thread.join();
    threads.clear();
  }

  size_t most;
  PartMethod method;
  KernelCache cache;
  llvm::StringMap<size_t> numbers; ///< of parts, by their keys
  std::mutex mutex;                ///< of what follows, but for a part that somebody compiles
  std::condition_variable changed;
  std::deque<Part> parts; ///< which stay where they are
  size_t next = 0;        ///< before it all are taken
  bool isClosed = false;
  std::vector<std::thread> threads;
};

PartCompiler::PartCompiler(unsigned threads, PartMethod method)
    : state(std::make_unique<State>(threads ? threads : std::thread::hardware_concurrency(),
                                    std::move(method))) {}

PartCompiler::~PartCompiler() = default;

FailureOr<size_t> PartCompiler::handIn(ModuleOp module) {
  Part part;
  part.key = state->keyOf(module);
  auto [known, isNew] = state->numbers.try_emplace(part.key, state->numbers.size());
  if (!isNew)
    return known->second;
  if (auto kept = state->cache.find(part.key)) {
    part.code = std::move(*kept);
  } else {
    part.module = succeeded(state->method.lower(module)) ? translate(module) : nullptr;
    if (!part.module)
      return failure();
  }
  state->add(std::move(part));
  return known->second;
}

void PartCompiler::close() { state->close(); }

llvm::Expected<std::vector<std::vector<char>>> PartCompiler::finish() {
  state->work();
  state->join();
  std::vector<std::vector<char>> all;
  for (Part &part : state->parts) {
    if (!part.error.empty())
      return llvm::createStringError(part.error);
    if (part.isNew)
      state->cache.keep(part.key, part.code);
    all.push_back(std::move(part.code));
  }
  return all;
}

LogicalResult PartwiseCompilation::add(exec::KernelOp kernel) {
  if (failed(verify(kernel)))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> module = emit(kernel);
  if (failed(module))
    return failure();
  FailureOr<size_t> part = parts.handIn(**module);
  if (failed(part))
    return failure();
  symbols.push_back(kernel.getSymName().str());
  partOf.push_back(*part);
  return success();
}

LogicalResult PartwiseCompilation::close() {
  parts.close();
  return success();
}

llvm::Expected<CodeObject> PartwiseCompilation::finish() {
  auto compiled = parts.finish();
  if (!compiled)
    return compiled.takeError();
  return link(std::move(*compiled));
}

} // namespace dtc::target
