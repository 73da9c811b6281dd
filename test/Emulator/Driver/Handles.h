// The objects behind the driver's opaque handles.
#pragma once

#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace dtc::emulator {

/// Owns objects by handle, so that a handle that was destroyed or never made is an error.
template <typename Object> class Handles {
public:
  explicit Handles(const char *what) : what(what) {}

  template <typename Handle> Handle add(std::unique_ptr<Object> object) {
    std::lock_guard<std::mutex> lock(mutex);
    Object *address = object.get();
    objects.emplace(address, std::move(object));
    return reinterpret_cast<Handle>(address);
  }

  Object &find(const void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto at = objects.find(handle);
    if (at == objects.end())
      throw Fault(cuda::CUDA_ERROR_INVALID_HANDLE, complaint(handle));
    return *at->second;
  }

  std::unique_ptr<Object> take(const void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto at = objects.find(handle);
    if (at == objects.end())
      throw Fault(cuda::CUDA_ERROR_INVALID_HANDLE, complaint(handle));
    std::unique_ptr<Object> object = std::move(at->second);
    objects.erase(at);
    return object;
  }

private:
  std::string complaint(const void *handle) const {
    return hex(reinterpret_cast<unsigned long long>(handle)) + " is no live " + what;
  }

  const char *what;
  std::mutex mutex;
  std::unordered_map<const void *, std::unique_ptr<Object>> objects;
};

} // namespace dtc::emulator
