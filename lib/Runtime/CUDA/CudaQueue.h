// Queues of a rank on its GPU: streams.
#pragma once

#include "Gpu.h"
#include "NcclGroup.h"

namespace dtc::rt::cuda {

/// An event of CUDA, and which of its signals have been issued. They are issued later than they are
/// asked for where ranks share a GPU.
struct SignalledEvent {
  SignalledEvent(const Driver &driver, CUevent event) : driver(driver), event(event) {}
  SignalledEvent(const SignalledEvent &) = delete;
  SignalledEvent &operator=(const SignalledEvent &) = delete;
  ~SignalledEvent() { driver.cuEventDestroy_v2(event); }
  /// Whether the last signal has happened.
  Result<bool> hasHappened(const char *what) const;

  const Driver &driver;
  CUevent event;
  uint64_t asked = 0, issued = 0; ///< signals
};

class CudaEvent : public Event {
public:
  CudaEvent(const Driver &driver, CUevent event)
      : state(std::make_shared<SignalledEvent>(driver, event)) {}

  std::shared_ptr<SignalledEvent> state; ///< also of signals that are still to be issued
  uint64_t recording = 0; ///< that the last signal belongs to
};

class CudaQueue : public Queue {
public:
  static Result<std::unique_ptr<CudaQueue>> create(Gpu &gpu, RankProgress &progress,
                                                   const QueueSpec &spec);
  ~CudaQueue() override;

  void signal(Event &event) override;
  void wait(Event &event) override;
  Status synchronize() override;

  /// Room for as many bytes, in which the parts of a tensor are packed for a collective. The
  /// operations of a queue use it one after another.
  Status reservePacked(uint64_t bytes);
  Address packed() const { return packedMemory ? packedMemory->base() : nullptr; }

  /// Of a call that was made for this queue: ends the run where it failed.
  Status note(Status status) { return status.isOk() ? status : progress.fail(std::move(status)); }

  Gpu &gpu;
  const Driver &driver;
  RankProgress &progress;
  const std::string name; ///< collectives meet those of queues of the same name
  CUstream stream = nullptr;
  /// What issues the queue's work where ranks share the GPU; null elsewhere.
  std::unique_ptr<IssuingThread> issuer;

private:
  Status begin(QueueKind kind);
  Status createStream(QueueKind kind);
  CudaQueue(Gpu &gpu, RankProgress &progress, std::string name)
      : gpu(gpu), driver(gpu.driver), progress(progress), name(std::move(name)) {}
  StreamOwner shared; ///< null where the stream is the queue's own
  std::unique_ptr<CudaEvent> ended;
  std::unique_ptr<Memory> packedMemory;
};

/// An operation whose work the queue's thread issues in its turn.
std::unique_ptr<Operation> issuedInTurn(CudaQueue &queue, std::unique_ptr<Operation> operation);

} // namespace dtc::rt::cuda
