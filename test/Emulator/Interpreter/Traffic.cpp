#include "Emulator/Interpreter/Traffic.h"

#include "Emulator/Device/Settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

namespace dtc::emulator {

namespace {

/// Of sectors, each once, as if a second cache held all that several blocks move.
uint64_t sectorBytesOf(const std::vector<Range> &ranges) {
  uint64_t bytes = 0, known = 0;
  for (const Range &range : ranges) {
    const uint64_t first = std::max<uint64_t>(range.begin / kSectorBytes, known);
    known = std::max<uint64_t>((range.end + kSectorBytes - 1) / kSectorBytes, known);
    bytes += known > first ? (known - first) * kSectorBytes : 0;
  }
  return bytes;
}

uint64_t bytesOf(const std::vector<Range> &ranges) {
  uint64_t bytes = 0;
  for (const Range &range : ranges)
    bytes += range.end - range.begin;
  return bytes;
}

} // namespace

bool Traffic::isCounted() {
  static const bool result = !settings().trafficFile.empty();
  return result;
}

void Traffic::write(const std::string &kernel, uint64_t blocks, uint64_t threads, uint64_t executed,
                    const Accesses &accesses) const {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::ofstream file(settings().trafficFile, std::ios::app);
  uint64_t sectors = sectorBytesOf(accesses.reads) + sectorBytesOf(accesses.writes);
  file << "{\"kernel\": \"" << kernel << "\", \"blocks\": " << blocks
       << ", \"threads\": " << threads << ", \"read\": " << moved[0]
       << ", \"written\": " << moved[1] << ", \"least_read\": " << bytesOf(accesses.reads)
       << ", \"least_written\": " << bytesOf(accesses.writes) << ", \"sectors\": " << sectors
       << ", \"instructions\": " << executed << "}\n";
  if (!file.flush()) {
    std::fprintf(stderr, "emulated GPU: DTC_EMULATED_GPU_TRAFFIC can't be written: %s\n",
                 settings().trafficFile.c_str());
    std::exit(2);
  }
}

} // namespace dtc::emulator
