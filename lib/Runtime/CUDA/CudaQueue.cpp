#include "CudaQueue.h"

#include <vector>

namespace dtc::rt::cuda {

Result<bool> SignalledEvent::hasHappened(const char *what) const {
  if (issued < asked)
    return false;
  CUresult result = driver.cuEventQuery(event);
  if (result == CUDA_ERROR_NOT_READY)
    return false;
  DTC_CUDA_TRY(driver.check(result, what));
  return true;
}

Result<std::unique_ptr<CudaQueue>> CudaQueue::create(Gpu &gpu, RankProgress &progress,
                                                     const QueueSpec &spec) {
  std::unique_ptr<CudaQueue> queue(new CudaQueue(gpu, progress, spec.name));
  DTC_CUDA_TRY(queue->begin(spec.kind));
  progress.useBegins();
  return queue;
}

Status CudaQueue::begin(QueueKind kind) {
  if (!sharesGpu())
    return createStream(kind);
  Result<StreamOwner> owner = sharedStream(driver);
  if (!owner)
    return owner.status();
  CUevent event = nullptr;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
  ended = std::make_unique<CudaEvent>(driver, event);
  shared = *owner;
  stream = shared.get();
  issuer = std::make_unique<IssuingThread>([this] { gpu.makeCurrent(); });
  return Status::ok();
}

/// Other ranks wait for what is exchanged. So it begins as soon as any block of a kernel beside it
/// has ended, not when all of the kernel's blocks have begun.
Status CudaQueue::createStream(QueueKind kind) {
  int least = 0, greatest = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuCtxGetStreamPriorityRange, &least, &greatest));
  const bool exchanges = kind != QueueKind::Compute && kind != QueueKind::Copy;
  return DTC_CUDA_CALL(driver, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING,
                       exchanges ? greatest : least);
}

/// Where the run has failed, waiting aborts its communicators, so that the queue's work ends.
CudaQueue::~CudaQueue() {
  if (!stream)
    return;
  (void)synchronize();
  issuer.reset();
  driver.cuStreamSynchronize(stream);
  if (!shared)
    driver.cuStreamDestroy_v2(stream);
  progress.useEnds();
}

void CudaQueue::signal(Event &event) {
  auto &own = static_cast<CudaEvent &>(event);
  own.recording = progress.currentRecording();
  if (!issuer) {
    (void)note(DTC_CUDA_CALL(driver, cuEventRecord, own.state->event, stream));
    return;
  }
  issuer->push([this, state = own.state, number = ++own.state->asked] {
    (void)note(DTC_CUDA_CALL(driver, cuEventRecord, state->event, stream));
    state->issued = number;
    SharedTurn::notify();
  });
}

/// What is recorded begins when all that was issued before is done, and ends likewise. There is
/// nothing to wait for across its ends, and CUDA refuses to.
void CudaQueue::wait(Event &event) {
  auto &own = static_cast<CudaEvent &>(event);
  if (own.recording != progress.currentRecording())
    return;
  if (!issuer) {
    (void)note(
        DTC_CUDA_CALL(driver, cuStreamWaitEvent, stream, own.state->event, CU_EVENT_WAIT_DEFAULT));
    return;
  }
  issuer->push([state = own.state, number = own.state->asked] {
    SharedTurn::waitUntil([&] { return state->issued >= number; });
  });
}

Status CudaQueue::synchronize() {
  const std::string what = "a kernel or copy of the queue " + name;
  if (issuer)
    signal(*ended);
  return progress.await([&]() -> Result<bool> {
    if (issuer)
      return ended->state->hasHappened(what.c_str());
    CUresult result = driver.cuStreamQuery(stream);
    if (result == CUDA_ERROR_NOT_READY)
      return false;
    DTC_CUDA_TRY(driver.check(result, what.c_str()));
    return true;
  });
}

Status CudaQueue::reservePacked(uint64_t bytes) {
  if (packedMemory && packedMemory->size() >= bytes)
    return Status::ok();
  if (packedMemory)
    if (Status status = synchronize(); !status.isOk())
      return status;
  auto allocated = gpu.allocateDevice(bytes);
  if (!allocated)
    return std::move(allocated.status()).in("room for packing collectives");
  packedMemory = std::move(*allocated);
  return Status::ok();
}

namespace {

class OperationInTurn : public Operation {
public:
  OperationInTurn(CudaQueue &queue, std::unique_ptr<Operation> operation)
      : queue(queue), operation(std::move(operation)) {}

  Status issue(std::span<const Address> addresses) override {
    DTC_CUDA_TRY(queue.progress.status());
    queue.issuer->push([&queue = queue, operation = operation,
                        places = std::vector<Address>(addresses.begin(), addresses.end())] {
      (void)queue.note(operation->issue(places));
    });
    return Status::ok();
  }

private:
  CudaQueue &queue;
  std::shared_ptr<Operation> operation; ///< also of what is still to be issued
};

} // namespace

std::unique_ptr<Operation> issuedInTurn(CudaQueue &queue, std::unique_ptr<Operation> operation) {
  return std::make_unique<OperationInTurn>(queue, std::move(operation));
}

} // namespace dtc::rt::cuda
