#include "CudaQueue.h"

namespace dtc::rt::cuda {

Result<std::unique_ptr<CudaQueue>> CudaQueue::create(Gpu &gpu, RankProgress &progress,
                                                     std::string name) {
  std::unique_ptr<CudaQueue> queue(new CudaQueue(gpu, progress, std::move(name)));
  DTC_CUDA_TRY(gpu.createStream(queue->stream));
  progress.queueBegins();
  return queue;
}

/// Where the run has failed, its communicators are aborted, so that the queue's work ends.
CudaQueue::~CudaQueue() {
  if (!stream)
    return;
  (void)synchronize();
  progress.queueEnds();
  driver.cuStreamSynchronize(stream);
  gpu.destroyStream(stream);
}

void CudaQueue::signal(Event &event) {
  auto &own = static_cast<CudaEvent &>(event);
  own.recording = progress.currentRecording();
  (void)note(DTC_CUDA_CALL(driver, cuEventRecord, own.event, stream));
}

/// What is recorded begins when all that was issued before is done, and ends likewise: there is
/// nothing to wait for across its ends, and CUDA refuses to.
void CudaQueue::wait(Event &event) {
  auto &own = static_cast<CudaEvent &>(event);
  if (own.recording != progress.currentRecording())
    return;
  (void)note(DTC_CUDA_CALL(driver, cuStreamWaitEvent, stream, own.event, CU_EVENT_WAIT_DEFAULT));
}

Status CudaQueue::synchronize() {
  return progress.await([&]() -> Result<bool> {
    CUresult result = driver.cuStreamQuery(stream);
    if (result == CUDA_ERROR_NOT_READY)
      return false;
    DTC_CUDA_TRY(driver.check(result, ("a kernel or copy of the queue " + name).c_str()));
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

} // namespace dtc::rt::cuda
