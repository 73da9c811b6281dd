// The order that the host gives to operations, for all devices of the process.
#pragma once

#include "Emulator/Device/VectorClock.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
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
  static Timeline &get();

  size_t newStream() { return streams++; }

  void complete(Ticket &ticket, const VectorClock &clock);
  void await(const Ticket &ticket);

  /// The host waited for a mark: whatever it puts on any stream from now on comes after it.
  void joinHost(const VectorClock &clock);
  VectorClock hostClock();

private:
  std::atomic<size_t> streams{0};
  std::mutex mutex;
  std::condition_variable changed;
  VectorClock host;
};

/// What was over when a stream last wrote a word that another stream may wait for.
class WordClocks {
public:
  static WordClocks &get();
  void release(const void *word, const VectorClock &clock);
  VectorClock acquire(const void *word);

private:
  std::mutex mutex;
  std::map<const void *, VectorClock> clocks;
};

} // namespace dtc::emulator
