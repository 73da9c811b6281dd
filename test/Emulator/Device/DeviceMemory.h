// The memory of one emulated device, at addresses that the host can't touch.
//
// Two regions of the same size are reserved. The first is never accessible, and its addresses are
// the device's, so that a host that dereferences a device pointer faults at once. The second holds
// the bytes, a constant distance away:
//
//     device address  0x7e0000000000 + x   no access
//     host address    0x7d0000000000 + x   the bytes, taken from the system when first touched
//
// Allocations lie at multiples of 256 bytes with at least 256 unused bytes between them, and freed
// addresses aren't used again while others are left. Every access goes through `translate`.
#pragma once

#include "Emulator/Device/AccessHistory.h"

#include <map>
#include <shared_mutex>

namespace dtc::emulator {

class DeviceMemory {
public:
  explicit DeviceMemory(uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  uint64_t allocate(uint64_t bytes);
  void release(uint64_t address);

  /// What the driver or a library needs for itself: it is used, and lies at no address.
  void take(uint64_t bytes);
  void giveBack(uint64_t bytes);

  /// The host's address of [address, address + bytes), which must lie in one live allocation.
  std::byte *translate(uint64_t address, uint64_t bytes) const;

  /// The live allocation around an address; begin == end where there is none.
  Range find(uint64_t address) const;

  /// Says what lies at an address: "8 bytes past the end of an allocation of 64 bytes at 0x…".
  std::string describe(uint64_t address) const;

  bool owns(uint64_t address) const { return address >= base && address < base + reserved; }
  std::byte *hostAddress(uint64_t address) const {
    return reinterpret_cast<std::byte *>(address - distance);
  }

  uint64_t capacity() const { return limit; }
  uint64_t available() const;

private:
  void requireLocked(uint64_t bytes) const;
  std::string describeLocked(uint64_t address) const;

  uint64_t limit;
  uint64_t reserved;
  uint64_t base = 0;
  uint64_t distance = 0;
  uint64_t used = 0;
  uint64_t next = 0; // the first address that was never given out
  mutable std::shared_mutex mutex;
  std::map<uint64_t, uint64_t> live;  // begin -> end
  std::map<uint64_t, uint64_t> freed; // begin -> end
};

/// Memory that a library has for itself, until nobody holds it.
class TakenMemory {
public:
  explicit TakenMemory(DeviceMemory &memory) : memory(memory) {}
  TakenMemory(const TakenMemory &) = delete;
  ~TakenMemory() { memory.giveBack(bytes); }

  /// So many, if they weren't that many before.
  void growTo(uint64_t wanted) {
    if (wanted <= bytes)
      return;
    memory.take(wanted - bytes);
    bytes = wanted;
  }

private:
  DeviceMemory &memory;
  uint64_t bytes = 0;
};

} // namespace dtc::emulator
