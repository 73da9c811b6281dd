// The order that the host gives to operations, for all devices of the process.
#pragma once

#include "Emulator/Device/VectorClock.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dtc::emulator {

/// Becomes done once, when everything before it on its stream is over.
struct Ticket {
  std::atomic<bool> done{false};
  std::chrono::steady_clock::time_point at;
  VectorClock clock; ///< once it is done: what is over then
};

/// A moment of a stream: what an event holds after it was recorded.
struct Mark {
  std::shared_ptr<Ticket> ticket;
};

class Timeline {
public:
  /// Never destroyed: workers of streams that a program left behind still use it at exit.
  static Timeline &get();

  size_t newStream() { return streams++; }

  /// `later`: how much later than now it is, as events say it.
  void complete(Ticket &ticket, const VectorClock &clock, std::chrono::nanoseconds later) {
    std::lock_guard<std::mutex> lock(mutex);
    ticket.clock = clock;
    ticket.at = std::chrono::steady_clock::now() + later;
    ticket.done = true;
    changed.notify_all();
  }
  void await(const Ticket &ticket) {
    if (ticket.done)
      return;
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return ticket.done.load(); });
  }

  /// The host waited for a mark: whatever it puts on any stream from now on comes after it.
  void joinHost(const VectorClock &clock) {
    std::lock_guard<std::mutex> lock(mutex);
    host.join(clock);
  }
  VectorClock hostClock() {
    std::lock_guard<std::mutex> lock(mutex);
    return host;
  }

private:
  std::atomic<size_t> streams{0};
  std::mutex mutex;
  std::condition_variable changed;
  VectorClock host;
};

} // namespace dtc::emulator
