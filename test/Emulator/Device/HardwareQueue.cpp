#include "Emulator/Device/HardwareQueue.h"

namespace dtc::emulator {

HardwareQueue::~HardwareQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    closing = true;
  }
  changed.notify_all();
  worker.join();
}

void HardwareQueue::submit(std::function<void()> entry) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    entries.push_back(std::move(entry));
  }
  changed.notify_all();
}

void HardwareQueue::work() {
  while (true) {
    std::function<void()> entry;
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return closing || !entries.empty(); });
      if (entries.empty())
        return;
      entry = std::move(entries.front());
      entries.pop_front();
    }
    entry();
  }
}

} // namespace dtc::emulator
