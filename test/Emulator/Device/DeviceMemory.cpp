#include "Emulator/Device/DeviceMemory.h"

#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

#include <cstdio>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace dtc::emulator {

namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kRedZone = 256;

uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Gives whole pages back to the machine: others may lie beside what was freed, in its last page.
void discard(std::byte *first, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = reinterpret_cast<uint64_t>(first);
  const uint64_t begin = roundUp(start, page), end = (start + bytes) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

uint64_t reserve(uint64_t bytes, int protection) {
  void *region =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED)
    throw Fault(cuda::CUDA_ERROR_OUT_OF_MEMORY, "cannot reserve ", bytes,
                " bytes of addresses for a device");
  return reinterpret_cast<uint64_t>(region);
}

} // namespace

std::string hex(unsigned long long value) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", value);
  return text;
}

DeviceMemory::DeviceMemory(uint64_t capacity) : limit(capacity), reserved(2 * capacity) {
  base = reserve(reserved, PROT_NONE);
  distance = base - reserve(reserved, PROT_READ | PROT_WRITE);
  next = roundUp(base, kAlignment) + kAlignment;
}

DeviceMemory::~DeviceMemory() {
  munmap(reinterpret_cast<void *>(base - distance), reserved);
  munmap(reinterpret_cast<void *>(base), reserved);
}

void DeviceMemory::requireLocked(uint64_t bytes) const {
  if (bytes > limit - used)
    throw Fault(cuda::CUDA_ERROR_OUT_OF_MEMORY, "out of memory: ", bytes, " bytes asked, ",
                limit - used, " of ", limit, " left");
}

void DeviceMemory::take(uint64_t bytes) {
  std::unique_lock lock(mutex);
  requireLocked(bytes);
  used += bytes;
}

void DeviceMemory::giveBack(uint64_t bytes) {
  std::unique_lock lock(mutex);
  used -= bytes;
}

uint64_t DeviceMemory::allocate(uint64_t bytes) {
  std::unique_lock lock(mutex);
  if (bytes == 0)
    throw Fault(cuda::CUDA_ERROR_INVALID_VALUE, "cuMemAlloc of 0 bytes");
  requireLocked(bytes);
  uint64_t size = roundUp(bytes, kAlignment) + kRedZone;
  uint64_t address = 0;
  if (size <= base + reserved - next) {
    address = next;
    next += size;
  } else {
    for (auto at = freed.begin(); at != freed.end() && !address; ++at)
      if (roundUp(at->second - at->first, kAlignment) + kRedZone >= size) {
        address = at->first;
        freed.erase(at);
        break;
      }
    if (!address)
      throw Fault(cuda::CUDA_ERROR_OUT_OF_MEMORY,
                  "out of memory: the device's addresses are fragmented");
  }
  live[address] = address + bytes;
  used += bytes;
  return address;
}

void DeviceMemory::release(uint64_t address) {
  std::unique_lock lock(mutex);
  auto at = live.find(address);
  if (at == live.end())
    throw Fault(cuda::CUDA_ERROR_INVALID_VALUE, "cuMemFree of ", hex(address),
                ", which no allocation starts at: it is ", describeLocked(address));
  uint64_t bytes = at->second - at->first;
  used -= bytes;
  freed[at->first] = at->second;
  discard(hostAddress(address), bytes);
  live.erase(at);
}

Range DeviceMemory::find(uint64_t address) const {
  std::shared_lock lock(mutex);
  auto after = live.upper_bound(address);
  if (after == live.begin())
    return {0, 0};
  auto at = std::prev(after);
  return address < at->second ? Range{at->first, at->second} : Range{0, 0};
}

std::byte *DeviceMemory::translate(uint64_t address, uint64_t bytes) const {
  Range range = find(address);
  if (address < range.begin || bytes > range.end - address)
    throw Fault(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, "out of bounds: ", bytes, " bytes at ",
                hex(address), ", which is ", describe(address));
  return hostAddress(address);
}

std::string DeviceMemory::describe(uint64_t address) const {
  std::shared_lock lock(mutex);
  return describeLocked(address);
}

std::string DeviceMemory::describeLocked(uint64_t address) const {
  if (!owns(address))
    return "no address of this device";
  auto around = [&](const std::map<uint64_t, uint64_t> &map) {
    auto after = map.upper_bound(address);
    return after == map.begin() ? map.end() : std::prev(after);
  };
  auto allocation = [](auto at) {
    return concat("an allocation of ", at->second - at->first, " bytes at ", hex(at->first));
  };
  auto inFreed = around(freed), inLive = around(live), after = live.upper_bound(address);
  if (inFreed != freed.end() && address < inFreed->second)
    return concat("in freed memory, ", address - inFreed->first, " bytes into ",
                  allocation(inFreed), " that was freed");
  if (inLive != live.end() && address < inLive->second)
    return concat(address - inLive->first, " bytes into ", allocation(inLive));
  if (inLive != live.end())
    return concat(address - inLive->second, " bytes past the end of ", allocation(inLive));
  if (after != live.end())
    return concat(after->first - address, " bytes before ", allocation(after));
  return "in memory that was never allocated";
}

uint64_t DeviceMemory::available() const {
  std::shared_lock lock(mutex);
  return limit - used;
}

} // namespace dtc::emulator
