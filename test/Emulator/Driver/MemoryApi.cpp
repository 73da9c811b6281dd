// Allocations, copies and fills.
#include "Emulator/Driver/Context.h"

#include <atomic>
#include <cstring>
#include <map>

namespace dtc::emulator {

namespace {

Range rangeOf(const void *address, size_t bytes) {
  auto begin = reinterpret_cast<uint64_t>(address);
  return {begin, begin + bytes};
}

/// Host memory that cuMemHostAlloc gave out; only this can be copied asynchronously.
class PinnedMemory {
public:
  static PinnedMemory &get() {
    static auto *memory = new PinnedMemory;
    return *memory;
  }

  void *allocate(size_t bytes) {
    void *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    require(address, cuda::CUDA_ERROR_OUT_OF_MEMORY,
            "the host has no " + std::to_string(bytes) + " bytes");
    std::lock_guard<std::mutex> lock(mutex);
    blocks[static_cast<std::byte *>(address)] = bytes;
    AccessHistory::ofPinned().initialize(rangeOf(address, bytes));
    return address;
  }

  void release(void *address) {
    std::lock_guard<std::mutex> lock(mutex);
    auto block = blocks.find(static_cast<std::byte *>(address));
    require(block != blocks.end(), cuda::CUDA_ERROR_INVALID_VALUE,
            "cuMemFreeHost of memory that isn't pinned");
    AccessHistory::ofPinned().forget(rangeOf(address, block->second));
    blocks.erase(block);
    std::free(address);
  }

  /// Throws where a copy leaves the block that it begins in.
  bool contains(const void *address, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto *first = static_cast<const std::byte *>(address);
    auto after = blocks.upper_bound(const_cast<std::byte *>(first));
    if (after == blocks.begin())
      return false;
    auto [begin, size] = *std::prev(after);
    if (first >= begin + size)
      return false;
    if (bytes > static_cast<size_t>(begin + size - first))
      throw Fault(cuda::CUDA_ERROR_INVALID_VALUE, "a copy of " + std::to_string(bytes) +
                                                      " bytes leaves its block of pinned memory");
    return true;
  }

private:
  std::mutex mutex;
  std::map<std::byte *, size_t> blocks;
};

void requireHost(const void *host) {
  require(host, cuda::CUDA_ERROR_INVALID_VALUE, "the host's address is null");
}

/// Like the true driver, takes pageable memory before the call returns.
void copyToDevice(cuda::CUdeviceptr target, const void *source, size_t bytes, Stream &stream) {
  if (bytes == 0)
    return;
  requireHost(source);
  stream.device().memory().translate(target, bytes);
  std::shared_ptr<std::vector<std::byte>> staged;
  if (!PinnedMemory::get().contains(source, bytes)) {
    const auto *first = static_cast<const std::byte *>(source);
    staged = std::make_shared<std::vector<std::byte>>(first, first + bytes);
  }
  stream.submit({"copy of " + std::to_string(bytes) + " bytes to the device",
                 [=, &memory = stream.device().memory()] {
                   std::memcpy(memory.translate(target, bytes), staged ? staged->data() : source,
                               bytes);
                   Accesses accesses{{}, {{target, target + bytes}}};
                   if (!staged)
                     accesses.pinnedReads = {rangeOf(source, bytes)};
                   return accesses;
                 }});
}

void copyToHost(void *target, cuda::CUdeviceptr source, size_t bytes, Stream &stream) {
  if (bytes == 0)
    return;
  requireHost(target);
  stream.device().memory().translate(source, bytes);
  bool isPinned = PinnedMemory::get().contains(target, bytes);
  stream.submit({"copy of " + std::to_string(bytes) + " bytes to the host",
                 [=, &memory = stream.device().memory()] {
                   std::memcpy(target, memory.translate(source, bytes), bytes);
                   Accesses accesses{{{source, source + bytes}}};
                   if (isPinned)
                     accesses.pinnedWrites = {rangeOf(target, bytes)};
                   return accesses;
                 }});
  if (!isPinned && !stream.capture)
    stream.synchronize();
}

void copyOnDevice(cuda::CUdeviceptr target, cuda::CUdeviceptr source, size_t bytes,
                  Stream &stream) {
  if (bytes == 0)
    return;
  stream.device().memory().translate(source, bytes);
  stream.device().memory().translate(target, bytes);
  require(target >= source + bytes || source >= target + bytes, cuda::CUDA_ERROR_INVALID_VALUE,
          "source and target of a copy overlap");
  stream.submit(
      {"copy of " + std::to_string(bytes) + " bytes", [=, &memory = stream.device().memory()] {
         std::memcpy(memory.translate(target, bytes), memory.translate(source, bytes), bytes);
         return Accesses{{{source, source + bytes}}, {{target, target + bytes}}};
       }});
}

template <typename Value>
void fill(cuda::CUdeviceptr target, Value value, size_t count, Stream &stream) {
  if (count == 0)
    return;
  size_t bytes = count * sizeof(Value);
  require(target % sizeof(Value) == 0, cuda::CUDA_ERROR_INVALID_VALUE,
          "the address of a fill isn't aligned");
  stream.device().memory().translate(target, bytes);
  stream.submit(
      {"fill of " + std::to_string(bytes) + " bytes", [=, &memory = stream.device().memory()] {
         auto *first = reinterpret_cast<Value *>(memory.translate(target, bytes));
         std::fill_n(first, count, value);
         return Accesses{{}, {{target, target + bytes}}};
       }});
}

void copyRows(const cuda::CUDA_MEMCPY2D &copy, Stream &stream) {
  using cuda::CU_MEMORYTYPE_DEVICE;
  require(copy.srcMemoryType == CU_MEMORYTYPE_DEVICE && copy.dstMemoryType == CU_MEMORYTYPE_DEVICE,
          cuda::CUDA_ERROR_NOT_SUPPORTED, "cuMemcpy2DAsync: only device memory");
  size_t width = copy.WidthInBytes, height = copy.Height;
  require((copy.srcPitch >= width && copy.dstPitch >= width) || height <= 1,
          cuda::CUDA_ERROR_INVALID_VALUE, "cuMemcpy2DAsync: the pitch is below the width");
  uint64_t source = copy.srcDevice + copy.srcY * copy.srcPitch + copy.srcXInBytes;
  uint64_t target = copy.dstDevice + copy.dstY * copy.dstPitch + copy.dstXInBytes;
  if (width == 0 || height == 0)
    return;
  stream.submit(
      {"copy of " + std::to_string(height) + " rows of " + std::to_string(width) + " bytes",
       [=, &memory = stream.device().memory()] {
         Accesses accesses;
         for (size_t i = 0; i < height; ++i) {
           uint64_t from = source + i * copy.srcPitch, to = target + i * copy.dstPitch;
           std::memcpy(memory.translate(to, width), memory.translate(from, width), width);
           accesses.reads.push_back({from, from + width});
           accesses.writes.push_back({to, to + width});
         }
         return accesses;
       }});
}

} // namespace
} // namespace dtc::emulator

namespace dtc::cuda {

using namespace dtc::emulator;

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return enter(__func__, [&] {
    *free = currentDevice().memory().available();
    *total = currentDevice().memory().capacity();
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return enter(__func__, [&] { *address = currentDevice().memory().allocate(bytes); });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return enter(__func__, [&] {
    if (!address)
      return;
    Device &device = currentDevice();
    device.synchronize();
    Range range = device.memory().find(address);
    device.memory().release(address);
    device.history().forget(range);
  });
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  return enter(__func__, [&] {
    currentDevice();
    require(bytes > 0 && (flags & ~(kMemHostAllocPortable | kMemHostAllocDeviceMap)) == 0,
            CUDA_ERROR_INVALID_VALUE, "0 bytes, or flags that aren't known");
    *address = PinnedMemory::get().allocate(bytes);
  });
}

CUresult cuMemFreeHost(void *address) {
  return enter(__func__, [&] {
    currentDevice().synchronize();
    PinnedMemory::get().release(address);
  });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes,
                              CUstream stream) {
  return enter(__func__, [&] { copyToDevice(target, source, bytes, streamOf(stream)); });
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(__func__, [&] { copyToHost(target, source, bytes, streamOf(stream)); });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
  return enter(__func__, [&] { copyOnDevice(target, source, bytes, streamOf(stream)); });
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
  return enter(__func__, [&] { copyRows(*copy, streamOf(stream)); });
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return enter(__func__, [&] { fill(target, value, count, streamOf(stream)); });
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
  return enter(__func__, [&] { fill(target, value, count, streamOf(stream)); });
}

} // namespace dtc::cuda
