// What carries out the operations of streams: a thread, in the order in which they were submitted.
//
// A GPU has some queues, and the driver maps streams to them as it likes. What lies behind an
// operation in its queue waits for it, also where it belongs to another stream. Each stream has a
// queue of its own, unless DTC_EMULATED_GPU_QUEUES says how many a device has:
//
//   stream 0, stream 2  ->  queue 0        stream 1, stream 3  ->  queue 1
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace dtc::emulator {

class HardwareQueue {
public:
  HardwareQueue() : worker([this] { work(); }) {}
  HardwareQueue(const HardwareQueue &) = delete;
  HardwareQueue &operator=(const HardwareQueue &) = delete;
  /// Ends once all that was submitted is over.
  ~HardwareQueue() {
    submit(nullptr);
    worker.join();
  }

  void submit(std::function<void()> entry) {
    std::lock_guard<std::mutex> lock(mutex);
    entries.push_back(std::move(entry));
    changed.notify_all();
  }

private:
  std::function<void()> next() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return !entries.empty(); });
    std::function<void()> entry = std::move(entries.front());
    entries.pop_front();
    return entry;
  }
  void work() {
    while (std::function<void()> entry = next())
      entry();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> entries; // an empty one ends the worker
  std::thread worker;
};

} // namespace dtc::emulator
