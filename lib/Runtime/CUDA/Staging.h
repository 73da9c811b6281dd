// Copies between ordinary memory of the host and a GPU, through pinned memory.
#pragma once

#include "Gpu.h"
#include "NcclGroup.h"

namespace dtc::rt::cuda {

class Staging {
public:
  Staging(Gpu &gpu, RankProgress &progress) : gpu(gpu), progress(progress) {}
  ~Staging();

  /// As Device's; they return when the copy is done.
  Status write(Address target, uint64_t bytes, const std::function<void(char *)> &fill);
  Status read(Address source, uint64_t bytes, const std::function<void(const char *)> &use);

private:
  /// Makes the stream, and pinned memory for as many bytes, at most kMostPinned.
  Status reserve(uint64_t bytes);
  Status synchronize();
  Status copyIn(Address target, const char *source, uint64_t bytes);
  Status copyOut(char *target, Address source, uint64_t bytes);

  Gpu &gpu;
  RankProgress &progress;
  CUstream stream = nullptr;
  std::unique_ptr<Memory> pinned;
};

} // namespace dtc::rt::cuda
