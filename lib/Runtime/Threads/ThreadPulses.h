// The steps in which the threads of a world are, which are looked at once a second.
#pragma once

#include "../HeldUp.h"
#include "../StallFinder.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace dtc::rt {

class ThreadPulses {
public:
  /// `onStall` is called, on another thread, with how long all have been in their steps where that
  /// is too long. No rank comes to another step meanwhile: `set` waits.
  ThreadPulses(int ranks, std::function<void(std::chrono::seconds)> onStall)
      : ranks(static_cast<size_t>(ranks)), onStall(std::move(onStall)) {}
  ~ThreadPulses();

  void set(int rank, const StepPulse &pulse);

private:
  void watch();

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankBeat> ranks;
  bool isOver = false;
  std::function<void(std::chrono::seconds)> onStall;
  std::thread thread; ///< from the first pulse on
};

} // namespace dtc::rt
