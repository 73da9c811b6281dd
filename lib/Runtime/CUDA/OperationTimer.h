// When the operations of a queue ran on the GPU, for `dtc-run --profile`.
//
// Each operation is issued between two events. CUDA gives the time between two events alone, in
// single precision, so times are counted from an anchor. This is an event of which the time on the
// machine's clock is known. A later event replaces it once a second.
//
//   host     begin op 1 end | begin op 2 end | ...  await: what has ended goes into the profile
//   stream   e0    op 1  e1   e2    op 2  e3
#pragma once

#include "CudaOperations.h"

#include "dtc-rt/Profile.h"

#include <deque>

namespace dtc::rt::cuda {

class QueueTimer {
public:
  /// Waits until the anchor, which it records, has happened. The driver and the profile outlive the
  /// timer. The queue needn't: a rank ends its queues before its device, which owns the timers.
  static Result<std::unique_ptr<QueueTimer>> create(CudaQueue &queue, QueueProfile &profile);
  ~QueueTimer();
  QueueTimer(const QueueTimer &) = delete;
  QueueTimer &operator=(const QueueTimer &) = delete;

  Status begin();
  Status end(uint32_t operation);
  /// Notes what has ended by now.
  Status collect();

private:
  struct Pending {
    CUevent begin, end;
    uint32_t operation;
  };
  QueueTimer(CudaQueue &queue, QueueProfile &profile)
      : queue(queue), driver(queue.driver), profile(profile) {}
  /// The first one, while the stream has nothing else to do.
  Status setAnchor();
  /// An event that is recorded in the stream now.
  Result<CUevent> record();
  /// On the machine's clock.
  Result<double> nanoseconds(CUevent event) const;

  CudaQueue &queue;
  const Driver &driver;
  QueueProfile &profile;
  std::vector<CUevent> unused;
  std::deque<Pending> pending;
  CUevent begun = nullptr; ///< of the operation that is being issued
  CUevent anchor = nullptr;
  double anchorTime = 0;
};

/// An operation whose times are noted.
MadeOperation timed(std::unique_ptr<Operation> operation, QueueTimer &timer, uint32_t number);

} // namespace dtc::rt::cuda
