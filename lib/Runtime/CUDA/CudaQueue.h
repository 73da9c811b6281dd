// Queues of a rank on its GPU: streams.
#pragma once

#include "Gpu.h"
#include "NcclGroup.h"

namespace dtc::rt::cuda {

class CudaEvent : public Event {
public:
  CudaEvent(const Driver &driver, CUevent event) : driver(driver), event(event) {}
  ~CudaEvent() override { driver.cuEventDestroy_v2(event); }

  const Driver &driver;
  CUevent event;
  uint64_t recording = 0; ///< that the last signal belongs to
};

class CudaQueue : public Queue {
public:
  static Result<std::unique_ptr<CudaQueue>> create(Gpu &gpu, RankProgress &progress,
                                                   std::string name);
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

private:
  CudaQueue(Gpu &gpu, RankProgress &progress, std::string name)
      : gpu(gpu), driver(gpu.driver), progress(progress), name(std::move(name)) {}
  std::unique_ptr<Memory> packedMemory;
};

} // namespace dtc::rt::cuda
