// Whether the machine holds this process up, so that its steps are long though nothing hangs, or
// the process has nothing to do.
//
//   a thread's state   processor time in the last second
//   runnable           0.02 s                              held up: others have the processors
//   runnable           0.97 s                              it computes, or hangs in a loop
//   waits for a disk   0                                   held up, as where memory is swapped out
//   sleeps             0                                   it waits for something of this program
//
// Where all threads sleep, the process is idle.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace dtc::rt {

struct ThreadTime {
  char state = 0;        ///< R: runnable, D: waits for a disk
  int64_t processor = 0; ///< milliseconds that it had one
};

/// By thread.
using ThreadTimes = std::map<int, ThreadTime>;

/// Of a line of /proc/PID/task/TID/stat, in which a tick has so many milliseconds.
std::optional<ThreadTime> parseThreadTime(std::string_view line, int64_t tick);

/// Threads that are held up `after`. They were looked at so many milliseconds ago, too.
std::set<int> heldUpThreads(const ThreadTimes &before, const ThreadTimes &after, int64_t passed);

/// Whether no thread has had a processor in the meantime but for a moment, and none wants one.
bool areIdle(const ThreadTimes &before, const ThreadTimes &after, int64_t passed);

class HeldUp {
public:
  /// Since it was asked before. Where the system doesn't say it, it is held up.
  struct Seen {
    bool isHeldUp = true, isIdle = false;
  };
  Seen look();

private:
  ThreadTimes times;
  std::chrono::steady_clock::time_point last;
};

} // namespace dtc::rt
