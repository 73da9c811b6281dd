#include "Emulator/Device/Timeline.h"

namespace dtc::emulator {

Timeline &Timeline::get() {
  // Never destroyed: workers of streams that a program left behind still use it at exit.
  static Timeline *timeline = new Timeline;
  return *timeline;
}

void Timeline::complete(Ticket &ticket, const VectorClock &clock, std::chrono::nanoseconds later) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ticket.clock = clock;
    ticket.at = std::chrono::steady_clock::now() + later;
    ticket.done = true;
  }
  changed.notify_all();
}

void Timeline::await(const Ticket &ticket) {
  if (ticket.done)
    return;
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return ticket.done.load(); });
}

void Timeline::joinHost(const VectorClock &clock) {
  std::lock_guard<std::mutex> lock(mutex);
  host.join(clock);
}

VectorClock Timeline::hostClock() {
  std::lock_guard<std::mutex> lock(mutex);
  return host;
}

} // namespace dtc::emulator
