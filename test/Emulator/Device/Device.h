// One emulated device: its memory, its streams, and the first mistake that was found on it.
#pragma once

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Stream.h"

#include <optional>
#include <set>

namespace dtc::emulator {

class Fault;

/// What every emulated device allows, as an H100 does.
struct DeviceLimits {
  static constexpr unsigned threadsPerBlock = 1024;
  static constexpr unsigned blockX = 1024, blockY = 1024, blockZ = 64;
  static constexpr unsigned gridX = 2147483647, gridY = 65535, gridZ = 65535;
  static constexpr unsigned sharedPerBlock = 48 * 1024;
  static constexpr unsigned sharedPerBlockOptIn = 227 * 1024;
  static constexpr unsigned staticSharedPerBlock = 48 * 1024;
  static constexpr unsigned multiprocessors = 132;
};

class Device {
public:
  Device(int ordinal, uint64_t memoryBytes);

  int ordinal() const { return number; }
  DeviceMemory &memory() { return bytes; }
  AccessHistory &history() { return accesses; }

  /// The primary context takes memory while anybody holds it.
  void retainContext();
  void releaseContext();

  /// The stream that a null handle means; others don't wait for it, nor it for others.
  Stream &defaultStream();
  /// Every stream adds and removes itself.
  void add(Stream &stream);
  void remove(Stream &stream);
  /// That of a new stream.
  std::shared_ptr<HardwareQueue> queueOf(size_t stream);

  /// Waits until every stream is idle.
  void synchronize();

  /// Likewise, before allocations that begin at these addresses go.
  void free(const std::vector<uint64_t> &addresses);

  /// Keeps the first fault and prints it. Nothing more runs on this device.
  void fail(const Fault &fault);
  bool hasFailed() const { return failed; }

  /// Throws the fault that was kept, if there is one.
  void checkHealthy();

private:
  int number;
  DeviceMemory bytes;
  int contextHolders = 0;
  std::optional<TakenMemory> context;
  AccessHistory accesses;
  std::mutex mutex;
  std::vector<Stream *> streams; // in the order of creation
  std::once_flag isNullStreamMade;
  std::unique_ptr<Stream> nullStream;
  std::vector<std::shared_ptr<HardwareQueue>> queues; // empty where each stream has its own
  std::atomic<bool> failed{false};
  int faultCode = 0;
  std::string faultMessage;
};

} // namespace dtc::emulator
