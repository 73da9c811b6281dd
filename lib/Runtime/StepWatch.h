// How long a step of this rank may take, which is known from the steps before.
//
//   steps of 0.3, 0.2 and 0.2 s   -> patience 60 s, as a network or a disk may stall for a while
//   steps of 40, 9 and 9 s        -> patience 800 s
//
// Only steps have a length that is known. Until the first one is over, and while a rank reads,
// saves or evaluates, the time limit of the run holds.
#pragma once

#include "dtc-rt/Communicator.h"

#include <algorithm>
#include <cmath>

namespace dtc::rt {

/// Seconds that a step may take where the longest one took `longest`.
inline std::chrono::seconds patienceAfter(double longest) {
  constexpr double kLeast = 60, kTimesLongest = 20, kMost = 1e7;
  double seconds = std::clamp(kTimesLongest * longest, kLeast, kMost);
  return std::chrono::seconds(static_cast<int64_t>(std::ceil(seconds)));
}

class StepWatch {
public:
  explicit StepWatch(Communicator &communicator) : communicator(communicator) {}

  /// A step is over, and the next one begins.
  void endStep(int64_t number, double seconds) {
    longest = std::max(longest, seconds);
    next = number + 1;
    tell();
  }

  /// All are issued: what is left may take any time.
  void end() {
    ++pauses;
    tell();
  }

  /// While it lives, this rank does what may take any time.
  class Pause {
  public:
    explicit Pause(StepWatch &watch) : watch(watch) {
      ++watch.pauses;
      watch.tell();
    }
    ~Pause() {
      --watch.pauses;
      watch.tell();
    }
    Pause(const Pause &) = delete;
    Pause &operator=(const Pause &) = delete;

  private:
    StepWatch &watch;
  };

private:
  void tell() {
    if (next > 0)
      communicator.setPulse({pauses > 0 ? 0 : next, patienceAfter(longest)});
  }

  Communicator &communicator;
  double longest = 0; ///< seconds
  int64_t next = 0;   ///< 0: no step is over yet
  int pauses = 0;
};

} // namespace dtc::rt
