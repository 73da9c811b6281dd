// How long a step of this rank may take, which is known from the steps before.
//
//   steps of 9, 2, 0.3 and 0.2 s, and later ones -> patience 5 s
//   the same, but only two are over              -> patience 180 s: they prepare much
//   steps of 0.2 s, of which only one is over    -> patience 60 s
//   steps of 40 s, of which any are over         -> patience 800 s
//
// Only steps have a length that is known. Until the first one is over, and while a rank reads,
// saves or evaluates, the time limit of the run holds.
#pragma once

#include "dtc-rt/Communicator.h"

#include <algorithm>
#include <cmath>

namespace dtc::rt {

/// Of a step where it isn't sure that nothing else than a rank that hangs makes it long.
inline constexpr std::chrono::seconds kUnsurePatience(60);
/// Where it is: the others then end within 10 s.
inline constexpr std::chrono::seconds kSurePatience(5);

/// Seconds of the steps that are over.
class StepLengths {
public:
  void add(double seconds) {
    const bool isFirstPrepared = ++count == kPreparing + 1;
    longest = isFirstPrepared ? seconds : std::max(longest, seconds);
  }

  /// How long another one may take.
  std::chrono::seconds patience() const {
    constexpr double kTimesLongest = 20, kMost = 1e7;
    const bool isSure = count >= kPreparing;
    const auto least = static_cast<double>((isSure ? kSurePatience : kUnsurePatience).count());
    double seconds = std::clamp(kTimesLongest * longest, least, kMost);
    return std::chrono::seconds(static_cast<int64_t>(std::ceil(seconds)));
  }

private:
  /// In these ranks connect, code is loaded and graphs are captured. Later ones only compute.
  static constexpr int kPreparing = 2;

  int64_t count = 0;
  double longest = 0; ///< of those that prepare, until another one is over
};

class StepWatch {
public:
  explicit StepWatch(Communicator &communicator) : communicator(communicator) {}

  /// A step is over, and the next one begins.
  void endStep(int64_t number, double seconds) {
    lengths.add(std::max(0.0, seconds - leftOut));
    leftOut = 0;
    next = number + 1;
    tell();
  }

  /// What is no part of the step that isn't over yet, though it is counted there.
  void leaveOut(double seconds) { leftOut += seconds; }

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
      communicator.setPulse({pauses > 0 ? 0 : next, lengths.patience()});
  }

  Communicator &communicator;
  StepLengths lengths;
  double leftOut = 0; ///< seconds
  int64_t next = 0;   ///< 0: no step is over yet
  int pauses = 0;
};

} // namespace dtc::rt
