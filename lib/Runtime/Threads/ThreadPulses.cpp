#include "ThreadPulses.h"

namespace dtc::rt {

ThreadPulses::~ThreadPulses() {
  {
    std::lock_guard lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

/// One rank alone keeps nobody waiting.
void ThreadPulses::set(int rank, const StepPulse &pulse) {
  std::lock_guard lock(mutex);
  ranks[static_cast<size_t>(rank)].pulse = pulse;
  if (ranks.size() > 1 && !thread.joinable())
    thread = std::thread([this] { watch(); });
}

/// Seconds are counted, not timed: where the process is suspended and goes on, none hangs.
void ThreadPulses::watch() {
  HeldUp heldUp;
  StallFinder finder;
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, kBeat, [&] { return isOver; })) {
    lock.unlock(); // no step waits while files on many threads are read
    const HeldUp::Seen seen = heldUp.look();
    lock.lock();
    for (RankBeat &rank : ranks)
      rank = {rank.pulse, seen.isHeldUp, seen.isIdle};
    if (std::optional<std::chrono::seconds> stall = finder.find(ranks))
      onStall(*stall);
  }
}

} // namespace dtc::rt
