#include "dtc/Target/PartCompiler.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace dtc::target {

TranslatedModule::TranslatedModule() : context(std::make_unique<llvm::LLVMContext>()) {}
TranslatedModule::~TranslatedModule() = default;

std::unique_ptr<TranslatedModule> translate(mlir::ModuleOp module) {
  auto translated = std::make_unique<TranslatedModule>();
  translated->module = mlir::translateModuleToLLVMIR(module, *translated->context, "kernels");
  if (translated->module)
    return translated;
  module.emitError() << "kernels cannot be translated to LLVM IR";
  return nullptr;
}

/// Parts are compiled by whoever is free, in the order in which they were handed in.
struct PartCompiler::State {
  State(unsigned threads, Compile compile) : most(threads), compile(std::move(compile)) {}

  ~State() {
    {
      std::lock_guard lock(mutex);
      next = parts.size();
    }
    close();
    join();
  }

  void handIn(std::unique_ptr<TranslatedModule> module) {
    {
      std::lock_guard lock(mutex);
      parts.push_back({std::move(module), {}, {}});
    }
    changed.notify_one();
    if (threads.size() + 1 < most) // one is who calls `finish`
      threads.emplace_back([this] { work(); });
  }

  void close() {
    std::lock_guard lock(mutex);
    isClosed = true;
    changed.notify_all();
  }

  /// Compiles until nothing is left.
  void work() {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [this] { return next < parts.size() || isClosed; });
      if (next >= parts.size())
        return;
      size_t number = next++;
      Part &part = parts[number];
      lock.unlock();
      auto object = compile(*part.module, number);
      part.module.reset();
      if (object)
        part.object = std::move(*object);
      else
        part.error = llvm::toString(object.takeError());
      lock.lock();
    }
  }

  void join() {
    for (std::thread &thread : threads)
      thread.join();
    threads.clear();
  }

  struct Part {
    std::unique_ptr<TranslatedModule> module;
    std::vector<char> object;
    std::string error;
  };

  size_t most;
  Compile compile;
  std::mutex mutex; ///< of what follows, but for a part that somebody compiles
  std::condition_variable changed;
  std::deque<Part> parts; ///< which stay where they are
  size_t next = 0;        ///< the first that nobody compiles yet
  bool isClosed = false;
  std::vector<std::thread> threads;
};

PartCompiler::PartCompiler(unsigned threads, Compile compile)
    : state(std::make_unique<State>(threads ? threads : std::thread::hardware_concurrency(),
                                    std::move(compile))) {}

PartCompiler::~PartCompiler() = default;

void PartCompiler::handIn(std::unique_ptr<TranslatedModule> part) {
  state->handIn(std::move(part));
}

void PartCompiler::close() { state->close(); }

llvm::Expected<std::vector<std::vector<char>>> PartCompiler::finish() {
  state->work();
  state->join();
  std::vector<std::vector<char>> objects;
  for (State::Part &part : state->parts) {
    if (!part.error.empty())
      return llvm::createStringError(part.error);
    objects.push_back(std::move(part.object));
  }
  return objects;
}

} // namespace dtc::target
