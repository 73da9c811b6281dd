#include "Staging.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dtc::rt::cuda {
namespace {

/// Larger tensors go in pieces: pinned memory is taken from all other programs.
constexpr uint64_t kMostPinned = uint64_t(32) << 20, kLeastPinned = uint64_t(64) << 10;

} // namespace

Staging::~Staging() {
  if (!stream)
    return;
  gpu.makeCurrent();
  gpu.driver.cuStreamDestroy_v2(stream);
}

Status Staging::reserve(uint64_t bytes) {
  if (!stream)
    DTC_CUDA_TRY(DTC_CUDA_CALL(gpu.driver, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
  uint64_t size = std::clamp(std::bit_ceil(bytes), kLeastPinned, kMostPinned);
  if (pinned && pinned->size() >= size)
    return Status::ok();
  pinned.reset();
  auto allocated = gpu.allocateHost(size);
  if (!allocated)
    return allocated.status();
  pinned = std::move(*allocated);
  return Status::ok();
}

Status Staging::synchronize() {
  return progress.await([&]() -> Result<bool> {
    CUresult result = gpu.driver.cuStreamQuery(stream);
    if (result == CUDA_ERROR_NOT_READY)
      return false;
    DTC_CUDA_TRY(gpu.driver.check(result, "a copy between host and GPU"));
    return true;
  });
}

Status Staging::copyIn(Address target, const char *source, uint64_t bytes) {
  DTC_CUDA_TRY(
      DTC_CUDA_CALL(gpu.driver, cuMemcpyHtoDAsync_v2, pointerOf(target), source, bytes, stream));
  return synchronize();
}

Status Staging::copyOut(char *target, Address source, uint64_t bytes) {
  DTC_CUDA_TRY(
      DTC_CUDA_CALL(gpu.driver, cuMemcpyDtoHAsync_v2, target, pointerOf(source), bytes, stream));
  return synchronize();
}

Status Staging::write(Address target, uint64_t bytes, const std::function<void(char *)> &fill) {
  if (gpu.isHost(target)) {
    fill(target);
    return Status::ok();
  }
  if (bytes == 0)
    return Status::ok();
  DTC_CUDA_TRY(reserve(bytes));
  char *piece = pinned->base();
  if (bytes <= pinned->size()) {
    fill(piece);
    return copyIn(target, piece, bytes);
  }
  std::vector<char> whole(bytes);
  fill(whole.data());
  for (uint64_t at = 0; at < bytes; at += pinned->size()) {
    uint64_t count = std::min(pinned->size(), bytes - at);
    std::memcpy(piece, whole.data() + at, count);
    DTC_CUDA_TRY(copyIn(target + at, piece, count));
  }
  return Status::ok();
}

Status Staging::read(Address source, uint64_t bytes, const std::function<void(const char *)> &use) {
  if (gpu.isHost(source)) {
    use(source);
    return Status::ok();
  }
  if (bytes == 0)
    return Status::ok();
  DTC_CUDA_TRY(reserve(bytes));
  char *piece = pinned->base();
  if (bytes <= pinned->size()) {
    DTC_CUDA_TRY(copyOut(piece, source, bytes));
    use(piece);
    return Status::ok();
  }
  std::vector<char> whole(bytes);
  for (uint64_t at = 0; at < bytes; at += pinned->size()) {
    uint64_t count = std::min(pinned->size(), bytes - at);
    DTC_CUDA_TRY(copyOut(piece, source + at, count));
    std::memcpy(whole.data() + at, piece, count);
  }
  use(whole.data());
  return Status::ok();
}

} // namespace dtc::rt::cuda
