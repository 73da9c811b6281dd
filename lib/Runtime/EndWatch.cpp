#include "EndWatch.h"

namespace dtc::rt {

EndWatch::EndWatch(const World &world, std::function<void(const Status &)> leave)
    : world(world), leave(std::move(leave)), thread([this] { watch(); }) {}

EndWatch::~EndWatch() {
  {
    std::lock_guard lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  thread.join();
}

void EndWatch::change(const std::function<void()> &how) {
  std::lock_guard lock(mutex);
  how();
}

/// Looks are counted, not timed: a process that is suspended meanwhile has its time afterwards.
void EndWatch::watch() {
  constexpr std::chrono::milliseconds kBetween(100), kGrace(2000);
  std::unique_lock lock(mutex);
  for (std::chrono::milliseconds since(0);
       !changed.wait_for(lock, kBetween, [&] { return isOver; });) {
    const Status reason = world.abortReason();
    if (reason.isOk())
      continue;
    since += kBetween;
    if (since >= kGrace)
      leave(reason);
  }
}

} // namespace dtc::rt
