// Ranks that are threads of one process and read each other's memory.
//
// A collective is two meetings of the group with work between them: all say
// where their buffers are, meet, compute, meet again. Work is shared: in an
// all-reduce each rank reduces one part of the elements and writes it into the
// target of every rank.
//
//   rank 0: A0 A1        part 0 = A0+B0 by rank 0  ->  both targets
//   rank 1: B0 B1        part 1 = A1+B1 by rank 1  ->  both targets
#pragma once

#include "dtc-rt/Communicator.h"

#include <chrono>
#include <memory>

namespace dtc::rt {

/// What the ranks of a process share. Outlives their communicators.
class ThreadWorld {
public:
  ThreadWorld(int worldSize, std::chrono::milliseconds timeLimit);
  ~ThreadWorld();

  std::unique_ptr<Communicator> communicator(int rank);
  /// As Communicator::abort, from any thread.
  void abort(const Status &reason);
  /// Why the run was aborted; ok when it wasn't.
  Status abortReason() const;

  class Impl;

private:
  std::unique_ptr<Impl> impl;
};

} // namespace dtc::rt
