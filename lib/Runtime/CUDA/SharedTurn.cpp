#include "SharedTurn.h"

#include "dtc-io/Environment.h"

namespace dtc::rt::cuda {
namespace {

struct Turns {
  static Turns &get() {
    static auto *turns = new Turns;
    return *turns;
  }
  std::recursive_mutex mutex;
  std::condition_variable_any changed;
};

} // namespace

bool sharesGpu() { return io::valueOf(io::Variable::ShareGpu) == "1"; }

SharedTurn::SharedTurn() : isTaken(sharesGpu()) {
  if (isTaken)
    Turns::get().mutex.lock();
}

SharedTurn::~SharedTurn() {
  if (isTaken)
    Turns::get().mutex.unlock();
}

void SharedTurn::waitUntil(const std::function<bool()> &condition) {
  Turns::get().changed.wait(Turns::get().mutex, condition);
}

void SharedTurn::notify() { Turns::get().changed.notify_all(); }

IssuingThread::IssuingThread(const std::function<void()> &begin)
    : thread([this, begin] { run(begin); }) {}

IssuingThread::~IssuingThread() {
  {
    std::lock_guard lock(mutex);
    isClosing = true;
  }
  changed.notify_all();
  thread.join();
}

void IssuingThread::push(std::function<void()> work) {
  {
    std::lock_guard lock(mutex);
    pending.push_back(std::move(work));
  }
  changed.notify_all();
}

void IssuingThread::run(const std::function<void()> &begin) {
  begin();
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return isClosing || !pending.empty(); });
      if (pending.empty())
        return;
      work = std::move(pending.front());
      pending.pop_front();
    }
    SharedTurn turn;
    work();
  }
}

Result<StreamOwner> sharedStream(const Driver &driver) {
  static std::weak_ptr<CUstream_st> known;
  SharedTurn turn;
  if (StreamOwner stream = known.lock())
    return stream;
  CUstream stream = nullptr;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
  StreamOwner made(stream, [&driver](CUstream ended) { driver.cuStreamDestroy_v2(ended); });
  known = made;
  return made;
}

} // namespace dtc::rt::cuda
