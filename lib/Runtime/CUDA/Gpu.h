// A GPU as one rank uses it: its context, its limits, and where its memory is.
#pragma once

#include "Libraries.h"

#include "dtc-rt/Device.h"

#include <map>

namespace dtc::rt::cuda {

inline CUdeviceptr pointerOf(Address address) {
  return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(address));
}

class Gpu {
public:
  /// How many the machine has.
  static Result<int> count(const Driver &driver);
  /// Makes the GPU the calling thread's.
  static Result<std::unique_ptr<Gpu>> open(const Driver &driver, int ordinal);
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;
  ~Gpu();

  /// "GPU 1 (NVIDIA H100 80GB HBM3)"
  const std::string &name() const { return title; }
  /// "NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors"
  const std::string &type() const { return kind; }
  /// "sm_90"
  const std::string &architecture() const { return arch; }
  /// Before calls on another thread than the rank's.
  void makeCurrent() const { driver.cuCtxSetCurrent(context); }

  /// Bytes of its memory that are taken, by whomever.
  Result<uint64_t> usedBytes() const;

  Result<std::unique_ptr<Memory>> allocateDevice(uint64_t bytes);
  /// Memory of the host at a fixed place, which the GPU can copy from and to.
  Result<std::unique_ptr<Memory>> allocateHost(uint64_t bytes);
  /// Whether an address lies in memory of allocateHost.
  bool isHost(Address address) const;

  const Driver &driver;

private:
  class DeviceMemory;
  class HostMemory;
  Gpu(const Driver &driver, CUdevice device) : driver(driver), device(device) {}
  Status readProperties(int ordinal);

  CUdevice device;
  CUcontext context = nullptr;
  std::string title, kind, arch;
  std::map<Address, uint64_t> hostRanges; ///< bytes by start
};

} // namespace dtc::rt::cuda
