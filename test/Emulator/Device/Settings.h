// What the environment says about the emulated machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dtc::emulator {

/// Nothing where the number is 0.
struct Hang {
  std::string name;
  uint64_t number = 0;
};

struct Settings {
  uint64_t memory;                        // DTC_EMULATED_GPU_MEMORY: bytes, or with K, M or G
  uint64_t contextBytes;                  // DTC_EMULATED_GPU_CONTEXT; of a device's memory
  uint64_t communicatorBytes;             // DTC_EMULATED_NCCL_MEMORY; of a rank's device
  int devices;                            // DTC_EMULATED_GPU_COUNT
  uint64_t seed;                          // DTC_EMULATED_GPU_SEED
  std::chrono::microseconds maximumDelay; // DTC_EMULATED_GPU_DELAY_US; 0 for none
  std::atomic<std::chrono::seconds> collectiveTimeout; // DTC_EMULATED_NCCL_TIMEOUT_S
  size_t hardwareQueues;              // DTC_EMULATED_GPU_QUEUES; 0: one for each stream
  std::vector<uint64_t> productTimes; // DTC_EMULATED_CUBLASLT_MS: "30,10,20"; empty: the true ones
  int ncclVersion;                    // DTC_EMULATED_NCCL_VERSION
  std::string trafficFile;            // DTC_EMULATED_GPU_TRAFFIC; empty: none is written
  std::string callsFile;              // DTC_EMULATED_GPU_CALLS; empty: none is written
  std::string failingFunction;        // DTC_EMULATED_GPU_FAILS; empty: none
  Hang hang;                          // DTC_EMULATED_GPU_HANGS: "kernel,300" (CallLog.h)
};

/// Read once. A value that isn't a number ends the program with a message.
const Settings &settings();

/// Of the process, from now on: for tests of ranks that wait for others in vain.
void setCollectiveTimeout(std::chrono::seconds time);

} // namespace dtc::emulator
