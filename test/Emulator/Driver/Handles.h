// The objects behind the driver's opaque handles.
#pragma once

#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace dtc::emulator {

/// Owns objects by handle, so that a handle that was destroyed or never made is an error, which
/// says what the object is.
template <typename Object> class Handles {
public:
  static Handles &get() {
    static auto *handles = new Handles; // programs may end with work under way
    return *handles;
  }

  template <typename Handle, typename... Part> Handle make(Part &&...parts) {
    return add<Handle>(std::make_unique<Object>(std::forward<Part>(parts)...));
  }
  template <typename Handle> Handle add(std::unique_ptr<Object> object) {
    std::lock_guard<std::mutex> lock(mutex);
    Object *address = object.get();
    objects.emplace(address, std::move(object));
    return reinterpret_cast<Handle>(address);
  }

  Object &find(const void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    return *place(handle)->second;
  }

  std::unique_ptr<Object> take(const void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto at = place(handle);
    std::unique_ptr<Object> object = std::move(at->second);
    objects.erase(at);
    return object;
  }

private:
  auto place(const void *handle) {
    auto at = objects.find(handle);
    require(at != objects.end(), cuda::CUDA_ERROR_INVALID_HANDLE,
            hex(reinterpret_cast<unsigned long long>(handle)), " is no live ", Object::kWhat);
    return at;
  }

  std::mutex mutex;
  std::unordered_map<const void *, std::unique_ptr<Object>> objects;
};

template <typename Object> Handles<Object> &handles() { return Handles<Object>::get(); }

} // namespace dtc::emulator
