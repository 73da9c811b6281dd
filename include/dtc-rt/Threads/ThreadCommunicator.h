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

/// All ranks are in this process.
class ThreadWorld : public World {
public:
  ThreadWorld(int worldSize, std::chrono::milliseconds timeLimit);
  ~ThreadWorld() override;

  std::vector<int> ranks() const override;
  std::unique_ptr<Communicator> communicator(int rank) override;
  void abort(const Status &reason) override;
  Status abortReason() const override;

  class Impl;

private:
  std::unique_ptr<Impl> impl;
};

} // namespace dtc::rt
