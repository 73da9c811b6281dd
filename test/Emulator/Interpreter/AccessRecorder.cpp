#include "Emulator/Interpreter/AccessRecorder.h"

#include "Emulator/Device/Settings.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

namespace dtc::emulator {

namespace {

void appendBits(std::vector<Range> &ranges, uint64_t word, uint64_t address) {
  unsigned position = 0;
  while (word) {
    unsigned zeroes = std::countr_zero(word);
    word >>= zeroes;
    position += zeroes;
    unsigned ones = std::countr_one(word);
    append(ranges, {address + position, address + position + ones});
    position += ones;
    word = ones == 64 ? 0 : word >> ones;
  }
}

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

Accesses AccessRecorder::take() {
  std::vector<uint64_t> numbers;
  for (const auto &[number, page] : pages)
    numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  Accesses result;
  for (uint64_t number : numbers) {
    const Page &page = pages[number];
    for (uint64_t word = 0; word < kWords; ++word) {
      appendBits(result.reads, page.bits[0][word], number * kPageBytes + word * 64);
      appendBits(result.writes, page.bits[1][word], number * kPageBytes + word * 64);
    }
  }
  return result;
}

bool AccessRecorder::countsTraffic() {
  static const bool result = !settings().trafficFile.empty();
  return result;
}

void AccessRecorder::writeTraffic(const std::string &kernel, uint64_t blocks, uint64_t threads,
                                  uint64_t executed, const Accesses &accesses) const {
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
