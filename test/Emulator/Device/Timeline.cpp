#include "Emulator/Device/Timeline.h"

namespace dtc::emulator {

Timeline &Timeline::get() {
  // Never destroyed: workers of streams that a program left behind still use it at exit.
  static Timeline *timeline = new Timeline;
  return *timeline;
}

void Timeline::complete(Ticket &ticket, const VectorClock &clock) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ticket.clock = clock;
    ticket.at = std::chrono::steady_clock::now();
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

WordClocks &WordClocks::get() {
  static auto *words = new WordClocks;
  return *words;
}

void WordClocks::release(const void *word, const VectorClock &clock) {
  std::lock_guard<std::mutex> lock(mutex);
  clocks[word] = clock;
}

VectorClock WordClocks::acquire(const void *word) {
  std::lock_guard<std::mutex> lock(mutex);
  return clocks[word];
}

} // namespace dtc::emulator
