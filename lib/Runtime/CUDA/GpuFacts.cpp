#include "dtc-rt/CUDA/GpuFacts.h"

#include "Gpu.h"

namespace dtc::rt {

using namespace cuda;

Result<GpuFacts> findGpus() {
  Result<Driver> driver = Driver::load();
  if (!driver)
    return driver.status();
  Result<int> count = Gpu::count(*driver);
  if (!count)
    return count.status();
  if (*count == 0)
    return Status(ErrorCategory::NoFit, "this machine has a driver, but no GPU");
  GpuFacts facts;
  facts.count = *count;
  Result<std::unique_ptr<Gpu>> first = Gpu::open(*driver, 0);
  if (!first)
    return first.status();
  CUdevice device = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(*driver, cuDeviceGet, &device, 0));
  char name[256] = "";
  DTC_CUDA_TRY(DTC_CUDA_CALL(*driver, cuDeviceGetName, name, sizeof(name) - 1, device));
  facts.name = name;
  DTC_CUDA_TRY(DTC_CUDA_CALL(*driver, cuDeviceGetAttribute, &facts.major,
                             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  DTC_CUDA_TRY(DTC_CUDA_CALL(*driver, cuDeviceGetAttribute, &facts.multiprocessors,
                             CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  size_t free = 0, total = 0;
  DTC_CUDA_TRY(DTC_CUDA_CALL(*driver, cuMemGetInfo_v2, &free, &total));
  facts.freeBytes = free;
  facts.memoryBytes = total;
  return facts;
}

} // namespace dtc::rt
