#include "Gpu.h"

#include <algorithm>
#include <cstring>

namespace dtc::rt::cuda {

class Gpu::DeviceMemory : public Memory {
public:
  DeviceMemory(Gpu &gpu, CUdeviceptr start, uint64_t bytes)
      : gpu(gpu), start(start), bytes(bytes) {}
  ~DeviceMemory() override {
    gpu.makeCurrent();
    gpu.driver.cuMemFree_v2(start);
  }
  Address base() const override { return reinterpret_cast<Address>(static_cast<uintptr_t>(start)); }
  uint64_t size() const override { return bytes; }

private:
  Gpu &gpu;
  CUdeviceptr start;
  uint64_t bytes;
};

class Gpu::HostMemory : public Memory {
public:
  HostMemory(Gpu &gpu, Address start, uint64_t bytes) : gpu(gpu), start(start), bytes(bytes) {
    gpu.hostRanges[start] = bytes;
  }
  ~HostMemory() override {
    gpu.hostRanges.erase(start);
    gpu.makeCurrent();
    gpu.driver.cuMemFreeHost(start);
  }
  Address base() const override { return start; }
  uint64_t size() const override { return bytes; }

private:
  Gpu &gpu;
  Address start;
  uint64_t bytes;
};

Result<int> Gpu::count(const Driver &driver) {
  int count = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDeviceGetCount, &count));
  return count;
}

Result<std::unique_ptr<Gpu>> Gpu::open(const Driver &driver, int ordinal) {
  CUdevice device = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDeviceGet, &device, ordinal));
  std::unique_ptr<Gpu> gpu(new Gpu(driver, device));
  DTC_CUDA_TRY(gpu->readProperties(ordinal));
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDevicePrimaryCtxRetain, &gpu->context, device));
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuCtxSetCurrent, gpu->context));
  return gpu;
}

Gpu::~Gpu() {
  if (context)
    driver.cuDevicePrimaryCtxRelease_v2(device);
}

Status Gpu::readProperties(int ordinal) {
  char text[256] = "";
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDeviceGetName, text, sizeof(text) - 1, device));
  title = "GPU " + std::to_string(ordinal) + " (" + text + ")";
  int major = 0, minor = 0, multiprocessors = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDeviceGetAttribute, &major,
                             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDeviceGetAttribute, &minor,
                             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuDeviceGetAttribute, &multiprocessors,
                             CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  arch = "sm_" + std::to_string(major) + std::to_string(minor);
  kind =
      std::string(text) + ", " + arch + ", " + std::to_string(multiprocessors) + " multiprocessors";
  return Status::ok();
}

Result<uint64_t> Gpu::usedBytes() const {
  size_t free = 0, total = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuMemGetInfo_v2, &free, &total));
  return total - free;
}

Result<std::unique_ptr<Memory>> Gpu::allocateDevice(uint64_t bytes) {
  CUdeviceptr start = 0;
  // The driver refuses an allocation of nothing.
  CUresult result = driver.cuMemAlloc_v2(&start, std::max<uint64_t>(bytes, 1));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t free = 0, total = 0;
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuMemGetInfo_v2, &free, &total));
    return Status(ErrorCategory::NoFit, "a rank needs " + std::to_string(bytes) + " bytes, but " +
                                            title + " has only " + std::to_string(free) + " free");
  }
  DTC_CUDA_TRY(driver.check(result, "cuMemAlloc_v2"));
  std::unique_ptr<Memory> memory = std::make_unique<DeviceMemory>(*this, start, bytes);
  if (bytes > 0)
    DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuMemsetD8Async, start, 0, bytes, nullptr));
  DTC_CUDA_TRY(DTC_CUDA_CALL(driver, cuStreamSynchronize, nullptr));
  return memory;
}

Result<std::unique_ptr<Memory>> Gpu::allocateHost(uint64_t bytes) {
  void *start = nullptr;
  CUresult result = driver.cuMemHostAlloc(&start, std::max<uint64_t>(bytes, 1),
                                          kMemHostAllocPortable | kMemHostAllocDeviceMap);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return Status(ErrorCategory::NoFit, "this machine has no pinned memory for the host arena of a "
                                        "rank, bytes: " +
                                            std::to_string(bytes));
  DTC_CUDA_TRY(driver.check(result, "cuMemHostAlloc"));
  std::memset(start, 0, bytes);
  return std::unique_ptr<Memory>(
      std::make_unique<HostMemory>(*this, static_cast<Address>(start), bytes));
}

bool Gpu::isHost(Address address) const {
  auto after = hostRanges.upper_bound(address);
  return after != hostRanges.begin() &&
         address < std::prev(after)->first + std::prev(after)->second;
}

} // namespace dtc::rt::cuda
