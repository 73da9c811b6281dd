#include "Emulator/Device/Settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dtc::emulator {

namespace {

uint64_t readNumber(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  if (!text)
    return otherwise;
  char *end = nullptr;
  uint64_t value = std::strtoull(text, &end, 10);
  const char *suffixes = "KMG";
  if (end != text && *end)
    if (const char *suffix = std::strchr(suffixes, *end)) {
      value <<= 10 * (suffix - suffixes + 1);
      ++end;
    }
  if (end == text || *end) {
    std::fprintf(stderr, "emulated GPU: %s is no number: %s\n", name, text);
    std::exit(2);
  }
  return value;
}

} // namespace

const Settings &settings() {
  const char *trafficFile = std::getenv("DTC_EMULATED_GPU_TRAFFIC");
  static const Settings read = {
      readNumber("DTC_EMULATED_GPU_MEMORY", uint64_t(16) << 30),
      static_cast<int>(readNumber("DTC_EMULATED_GPU_COUNT", 8)),
      readNumber("DTC_EMULATED_GPU_SEED", 1),
      std::chrono::microseconds(readNumber("DTC_EMULATED_GPU_DELAY_US", 50)),
      std::chrono::seconds(readNumber("DTC_EMULATED_NCCL_TIMEOUT_S", 30)),
      std::clamp<size_t>(readNumber("CUDA_DEVICE_MAX_CONNECTIONS", 8), 1, 32),
      static_cast<size_t>(readNumber("DTC_EMULATED_GPU_QUEUES", 0)),
      trafficFile ? trafficFile : "",
  };
  return read;
}

} // namespace dtc::emulator
