// How long a step of this rank may take, which is known from the steps before.
//
//   steps of 9, 2, 0.3 and 0.2 s, and later ones -> patience 5 s
//   the same, but only two are over              -> patience 180 s: they prepare much
//   steps of 0.2 s, of which only one is over    -> patience 60 s
//   steps of 40 s, of which any are over         -> patience 800 s
//
// Only steps have a length that is known, and batches of an evaluation, which take no longer. In
// the first step, and while a rank reads or saves, the time limit of the run holds. Ranks without a
// device of their own say that they compute by themselves: in their first step, too, one is found
// that hangs without computing.
#pragma once

#include "dtc-rt/Communicator.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace dtc::rt {

/// Of a step where it isn't sure that nothing else than a rank that hangs makes it long.
inline constexpr std::chrono::seconds kUnsurePatience(60);
/// Where it is: the others then end within 10 s.
inline constexpr std::chrono::seconds kSurePatience(5);
inline constexpr std::chrono::seconds kMostPatience(10'000'000);

/// Seconds of the steps that are over.
class StepLengths {
public:
  void add(double seconds) {
    const bool isFirstPrepared = ++count == kPreparing + 1;
    longest = isFirstPrepared ? seconds : std::max(longest, seconds);
  }

  bool isSure() const { return count >= kPreparing; }

  /// How long another one may take, which nothing says before one is over.
  std::optional<std::chrono::seconds> patience() const {
    if (count == 0)
      return std::nullopt;
    constexpr double kTimesLongest = 20;
    const auto least = static_cast<double>((isSure() ? kSurePatience : kUnsurePatience).count());
    double seconds =
        std::clamp(kTimesLongest * longest, least, static_cast<double>(kMostPatience.count()));
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

  /// The first step begins. Before, nothing is watched.
  void begin(bool computesHere) {
    this->computesHere = computesHere;
    place = 1;
    tell();
  }

  /// A step is over, and the next one begins.
  void endStep(double seconds) {
    steps.add(std::max(0.0, seconds - leftOut));
    leftOut = 0;
    getOn();
  }

  /// A batch of an evaluation is over, which is a part of a step: none takes longer.
  void endBatch() { getOn(); }

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
  void getOn() {
    if (place > 0)
      ++place;
    tell();
  }

  void tell() {
    if (place == 0)
      return;
    const auto known = steps.patience();
    const bool isWatched = pauses == 0 && (known || computesHere);
    communicator.setPulse({isWatched ? place : 0, known.value_or(kMostPatience), computesHere});
  }

  Communicator &communicator;
  StepLengths steps;
  double leftOut = 0; ///< seconds
  int64_t place = 0;  ///< of what this rank does, one after another; 0: nothing is watched
  int pauses = 0;
  bool computesHere = false;
};

} // namespace dtc::rt
