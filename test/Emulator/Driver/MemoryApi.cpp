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
    require(address, cuda::CUDA_ERROR_OUT_OF_MEMORY, "the host has no ", bytes, " bytes");
    std::lock_guard<std::mutex> lock(mutex);
    blocks[address] = bytes;
    AccessHistory::ofPinned().initialize(rangeOf(address, bytes));
    return address;
  }

  void release(void *address) {
    std::lock_guard<std::mutex> lock(mutex);
    auto block = blocks.find(address);
    require(block != blocks.end(), cuda::CUDA_ERROR_INVALID_VALUE,
            "cuMemFreeHost of memory that isn't pinned");
    AccessHistory::ofPinned().forget(rangeOf(address, block->second));
    blocks.erase(block);
    std::free(address);
  }

  /// Throws where a copy leaves the block that it begins in.
  bool contains(const void *address, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    auto after = blocks.upper_bound(address);
    Range copied = rangeOf(address, bytes);
    if (after == blocks.begin() || copied.begin >= endOf(std::prev(after)))
      return false;
    require(copied.end <= endOf(std::prev(after)), cuda::CUDA_ERROR_INVALID_VALUE, "a copy of ",
            bytes, " bytes leaves its block of pinned memory");
    return true;
  }

private:
  using Blocks = std::map<const void *, size_t>;
  static uint64_t endOf(Blocks::iterator block) { return rangeOf(block->first, block->second).end; }

  std::mutex mutex;
  Blocks blocks;
};

/// Where a copy reads or writes: rows of the device's or of the host's memory.
struct End {
  uint64_t address, pitch = 0;
  bool isOfDevice = true, isPinned = false;

  Range row(size_t index, size_t width) const {
    return {address + index * pitch, address + index * pitch + width};
  }
  std::byte *place(const DeviceMemory &memory, size_t bytes) const {
    return isOfDevice ? memory.translate(address, bytes) : reinterpret_cast<std::byte *>(address);
  }
  void note(const Range &range, std::vector<Range> &device, std::vector<Range> &pinned) const {
    if (isOfDevice || isPinned)
      (isOfDevice ? device : pinned).push_back(range);
  }
};

End onHost(const void *address, size_t bytes) {
  require(address || bytes == 0, cuda::CUDA_ERROR_INVALID_VALUE, "the host's address is null");
  return {reinterpret_cast<uint64_t>(address), 0, false,
          PinnedMemory::get().contains(address, bytes)};
}

/// Like the true driver, takes pageable memory before the call returns.
void copy(const End &target, End source, size_t width, size_t height, Stream &stream) {
  if (width == 0 || height == 0)
    return;
  auto bytesOf = [=](const End &end) { return (height - 1) * end.pitch + width; };
  DeviceMemory &memory = stream.device().memory();
  target.place(memory, bytesOf(target));
  source.place(memory, bytesOf(source));
  bool isWithinDevice = source.isOfDevice && target.isOfDevice;
  require(!isWithinDevice || height > 1 || target.address >= source.address + width ||
              source.address >= target.address + width,
          cuda::CUDA_ERROR_INVALID_VALUE, "source and target of a copy overlap");
  std::vector<std::byte> staged;
  if (!source.isOfDevice && !source.isPinned) {
    const auto *first = reinterpret_cast<const std::byte *>(source.address);
    staged.assign(first, first + width);
  }
  std::string name = height > 1 ? concat("copy of ", height, " rows of ", width, " bytes")
                                : concat("copy of ", width, " bytes");
  name += !target.isOfDevice ? " to the host" : !source.isOfDevice ? " to the device" : "";
  stream.submit({name, [=, &memory, staged = std::move(staged)] {
                   std::byte *to = target.place(memory, bytesOf(target));
                   const std::byte *from =
                       staged.empty() ? source.place(memory, bytesOf(source)) : staged.data();
                   Accesses accesses;
                   for (size_t i = 0; i < height; ++i) {
                     std::memcpy(to + i * target.pitch, from + i * source.pitch, width);
                     source.note(source.row(i, width), accesses.reads, accesses.pinnedReads);
                     target.note(target.row(i, width), accesses.writes, accesses.pinnedWrites);
                   }
                   return accesses;
                 }});
  if (!target.isOfDevice && !target.isPinned && !stream.capture)
    stream.synchronize();
}

template <typename Value>
void fill(cuda::CUdeviceptr target, Value value, size_t count, Stream &stream) {
  if (count == 0)
    return;
  size_t bytes = count * sizeof(Value);
  require(target % sizeof(Value) == 0, cuda::CUDA_ERROR_INVALID_VALUE,
          "the address of a fill isn't aligned");
  stream.device().memory().translate(target, bytes);
  stream.submit({concat("fill of ", bytes, " bytes"), [=, &memory = stream.device().memory()] {
                   auto *first = reinterpret_cast<Value *>(memory.translate(target, bytes));
                   std::fill_n(first, count, value);
                   return Accesses{{}, {{target, target + bytes}}};
                 }});
}

void copyRows(const cuda::CUDA_MEMCPY2D &rows, Stream &stream) {
  using cuda::CU_MEMORYTYPE_DEVICE;
  require(rows.srcMemoryType == CU_MEMORYTYPE_DEVICE && rows.dstMemoryType == CU_MEMORYTYPE_DEVICE,
          cuda::CUDA_ERROR_NOT_SUPPORTED, "cuMemcpy2DAsync: only device memory");
  size_t width = rows.WidthInBytes, height = rows.Height;
  require((rows.srcPitch >= width && rows.dstPitch >= width) || height <= 1,
          cuda::CUDA_ERROR_INVALID_VALUE, "cuMemcpy2DAsync: the pitch is below the width");
  copy({rows.dstDevice + rows.dstY * rows.dstPitch + rows.dstXInBytes, rows.dstPitch},
       {rows.srcDevice + rows.srcY * rows.srcPitch + rows.srcXInBytes, rows.srcPitch}, width,
       height, stream);
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
    if (address)
      currentDevice().free({address});
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
  return enter(__func__,
               [&] { copy({target}, onHost(source, bytes), bytes, 1, streamOf(stream)); });
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enter(__func__,
               [&] { copy(onHost(target, bytes), {source}, bytes, 1, streamOf(stream)); });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
  return enter(__func__, [&] { copy({target}, {source}, bytes, 1, streamOf(stream)); });
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
