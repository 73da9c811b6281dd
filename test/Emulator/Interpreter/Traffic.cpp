#include "Emulator/Interpreter/Traffic.h"

#include "Emulator/Device/Settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace dtc::emulator {

namespace {

constexpr unsigned long long kSectorBytes = 32;

/// Of sectors, each once, as if a second cache held all that several blocks move.
unsigned long long sectorBytesOf(const std::vector<Range> &ranges) {
  unsigned long long bytes = 0, known = 0;
  for (const Range &range : ranges) {
    const unsigned long long first =
        std::max<unsigned long long>(range.begin / kSectorBytes, known);
    known = std::max<unsigned long long>((range.end + kSectorBytes - 1) / kSectorBytes, known);
    bytes += known > first ? (known - first) * kSectorBytes : 0;
  }
  return bytes;
}

unsigned long long bytesOf(const std::vector<Range> &ranges) {
  unsigned long long bytes = 0;
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
  std::FILE *file = std::fopen(settings().trafficFile.c_str(), "a");
  if (!file) {
    std::fprintf(stderr, "emulated GPU: DTC_EMULATED_GPU_TRAFFIC can't be written: %s\n",
                 settings().trafficFile.c_str());
    std::exit(2);
  }
  std::fprintf(file,
               "{\"kernel\": \"%s\", \"blocks\": %llu, \"threads\": %llu, \"read\": %llu, "
               "\"written\": %llu, \"least_read\": %llu, \"least_written\": %llu, \"sectors\": "
               "%llu, \"instructions\": %llu}\n",
               kernel.c_str(), static_cast<unsigned long long>(blocks),
               static_cast<unsigned long long>(threads), static_cast<unsigned long long>(moved[0]),
               static_cast<unsigned long long>(moved[1]), bytesOf(accesses.reads),
               bytesOf(accesses.writes),
               sectorBytesOf(accesses.reads) + sectorBytesOf(accesses.writes),
               static_cast<unsigned long long>(executed));
  std::fclose(file);
}

} // namespace dtc::emulator
