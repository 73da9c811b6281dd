#include "OperationTimer.h"

#include <limits>
#include <utility>

namespace dtc::rt::cuda {
namespace {

constexpr double kNanosecondsPerMillisecond = 1e6, kAnchorNanoseconds = 1e9;
/// Of readings of the clock around an anchor: how many, and how near they are near enough.
constexpr int kAnchorAttempts = 16;
constexpr int64_t kNearNanoseconds = 50'000;

class TimedOperation : public Operation {
public:
  TimedOperation(std::unique_ptr<Operation> operation, QueueTimer &timer, uint32_t number)
      : operation(std::move(operation)), timer(timer), number(number) {}

  Status issue(std::span<const Address> addresses) override {
    DTC_CUDA_TRY(timer.begin());
    DTC_CUDA_TRY(operation->issue(addresses));
    return timer.end(number);
  }

private:
  std::unique_ptr<Operation> operation;
  QueueTimer &timer;
  uint32_t number;
};

} // namespace

MadeOperation timed(std::unique_ptr<Operation> operation, QueueTimer &timer, uint32_t number) {
  return made<TimedOperation>(std::move(operation), timer, number);
}

Result<std::unique_ptr<QueueTimer>> QueueTimer::create(CudaQueue &queue, QueueProfile &profile) {
  std::unique_ptr<QueueTimer> timer(new QueueTimer(queue, profile));
  DTC_CUDA_TRY(timer->setAnchor());
  return timer;
}

/// The event happened between two readings of the clock. Another thread may have had the processor
/// meanwhile, so the nearest two of some are taken.
Status QueueTimer::setAnchor() {
  int64_t nearest = std::numeric_limits<int64_t>::max();
  for (int attempt = 0; attempt < kAnchorAttempts && nearest > kNearNanoseconds; ++attempt) {
    const int64_t before = RankProfile::now();
    Result<CUevent> event = record();
    if (!event)
      return event.status();
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventSynchronize, *event));
    const int64_t apart = RankProfile::now() - before;
    const bool isNearest = apart < nearest;
    CUevent other = isNearest ? std::exchange(anchor, *event) : *event;
    if (other)
      unused.push_back(other);
    if (!isNearest)
      continue;
    nearest = apart;
    anchorTime = static_cast<double>(before) + static_cast<double>(apart) / 2;
  }
  return Status::ok();
}

QueueTimer::~QueueTimer() {
  for (const Pending &one : pending)
    unused.insert(unused.end(), {one.begin, one.end});
  unused.insert(unused.end(), {begun, anchor});
  for (CUevent event : unused)
    if (event)
      driver.cuEventDestroy_v2(event);
}

Result<CUevent> QueueTimer::record() {
  CUevent event = nullptr;
  if (unused.empty()) {
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventCreate, &event, CU_EVENT_DEFAULT));
  } else {
    event = unused.back();
    unused.pop_back();
  }
  if (Status status = DTC_CUDA_CALL(driver, cuEventRecord, event, queue.stream); !status.isOk()) {
    unused.push_back(event);
    return queue.note(std::move(status));
  }
  return event;
}

Status QueueTimer::begin() {
  Result<CUevent> event = record();
  if (event)
    begun = *event;
  return event ? Status::ok() : event.status();
}

Status QueueTimer::end(uint32_t operation) {
  Result<CUevent> event = record();
  if (!event)
    return event.status();
  pending.push_back({std::exchange(begun, nullptr), *event, operation});
  return Status::ok();
}

Result<double> QueueTimer::nanoseconds(CUevent event) const {
  float milliseconds = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventElapsedTime, &milliseconds, anchor, event));
  return anchorTime + static_cast<double>(milliseconds) * kNanosecondsPerMillisecond;
}

Status QueueTimer::collect() {
  while (!pending.empty()) {
    Pending first = pending.front();
    CUresult ended = driver.cuEventQuery(first.end);
    if (ended == CUDA_ERROR_NOT_READY)
      return Status::ok();
    DTC_CUDA_TRY(driver.check(ended, "cuEventQuery"));
    Result<double> from = nanoseconds(first.begin), to = nanoseconds(first.end);
    if (!from || !to)
      return (from ? to : from).status();
    profile.add(first.operation, static_cast<int64_t>(*from), static_cast<int64_t>(*to));
    pending.pop_front();
    unused.push_back(first.begin);
    bool isFar = *to - anchorTime > kAnchorNanoseconds;
    if (isFar)
      anchorTime = *to;
    unused.push_back(isFar ? std::exchange(anchor, first.end) : first.end);
  }
  return Status::ok();
}

} // namespace dtc::rt::cuda
