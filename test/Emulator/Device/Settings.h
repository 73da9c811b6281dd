// What the environment says about the emulated machine (README.md has what each variable means).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dtc::emulator {

/// A number in bytes also as 512M or 4G. What isn't one ends the program with a message.
uint64_t numberSetting(const char *name, uint64_t otherwise);
std::vector<uint64_t> numbersSetting(const char *name);
std::string textSetting(const char *name);

struct Settings {
  uint64_t memory = numberSetting("DTC_EMULATED_GPU_MEMORY", uint64_t(16) << 30);
  uint64_t contextBytes = numberSetting("DTC_EMULATED_GPU_CONTEXT", 512 << 20);
  uint64_t communicatorBytes = numberSetting("DTC_EMULATED_NCCL_MEMORY", 256 << 20);
  int devices = static_cast<int>(numberSetting("DTC_EMULATED_GPU_COUNT", 8));
  uint64_t seed = numberSetting("DTC_EMULATED_GPU_SEED", 1);
  std::chrono::microseconds maximumDelay{numberSetting("DTC_EMULATED_GPU_DELAY_US", 50)};
  std::atomic<std::chrono::seconds> collectiveTimeout{
      std::chrono::seconds(numberSetting("DTC_EMULATED_NCCL_TIMEOUT_S", 30))};
  size_t hardwareQueues = numberSetting("DTC_EMULATED_GPU_QUEUES", 0); // 0: one for each stream
  std::vector<uint64_t> productTimes = numbersSetting("DTC_EMULATED_CUBLASLT_MS");
  int ncclVersion = static_cast<int>(numberSetting("DTC_EMULATED_NCCL_VERSION", 22809));
  std::string trafficFile = textSetting("DTC_EMULATED_GPU_TRAFFIC");
  std::string callsFile = textSetting("DTC_EMULATED_GPU_CALLS");
  std::string failingFunction = textSetting("DTC_EMULATED_GPU_FAILS");
  std::string hang = textSetting("DTC_EMULATED_GPU_HANGS"); // "kernel,300" (CallLog.h)
};

/// Read once.
const Settings &settings();

/// Of the process, from now on: for tests of ranks that wait for others in vain.
void setCollectiveTimeout(std::chrono::seconds time);

} // namespace dtc::emulator
