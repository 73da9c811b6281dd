// Ends a process that outlives its run.
//
//   0 s   another rank has failed; this one waits for a disk, or its GPU's work can't be aborted
//   2 s   the process ends, as its main thread would have ended it
#pragma once

#include "dtc-rt/Communicator.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace dtc::rt {

class EndWatch {
public:
  /// `leave` ends the process. It is called, on another thread, where this object lives for two
  /// seconds after the run was aborted.
  EndWatch(const World &world, std::function<void(const Status &)> leave);
  ~EndWatch();

  /// Changes what `leave` looks at.
  void change(const std::function<void()> &how);

private:
  void watch();

  const World &world;
  std::function<void(const Status &)> leave;
  std::mutex mutex;
  std::condition_variable changed;
  bool isOver = false;
  std::thread thread;
};

} // namespace dtc::rt
