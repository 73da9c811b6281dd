// A rank whose peers are other processes, on this machine or on others.
//
// Rank 0 listens where the launcher says. The others connect to it, prove that they know the job's
// token, and keep the connection for control. It carries the reason of an abort, and its end means
// that a process is gone. Data goes directly between ranks, over a connection for each queue that
// both have:
//
//   rank 1 --control-- rank 0 --control-- rank 2
//      \------ queue "compute", channel 3 ------/
//
// Reductions add in the order of the ranks, element by element, exactly as those of threads do.
// So processes and threads give the same bits.
#pragma once

#include "dtc-rt/Communicator.h"
#include "dtc-rt/Processes/Launch.h"

namespace dtc::rt {

class ProcessWorld : public World {
public:
  /// Returns when all ranks are there, or one has been missing for the time limit. `signal` gives
  /// the number of one that asks for the end, or 0; the ranks then have a few seconds to meet.
  static Result<std::unique_ptr<ProcessWorld>> connect(
      const Launch &launch, std::chrono::milliseconds timeLimit,
      const std::function<int()> &signal = [] { return 0; });
  ~ProcessWorld() override;

  std::vector<int> ranks() const override;
  std::unique_ptr<Communicator> communicator(int rank) override;
  void abort(const Status &reason) override;
  Status abortReason() const override;
  /// The end of this rank's part, with how it went. A failure is told to all; else it returns
  /// when all ranks have come here, rank 0 last. Returns how the run ended for this rank.
  Status close(const Status &status);

  class Impl;

private:
  explicit ProcessWorld(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace dtc::rt
