#include "Emulator/Interpreter/AccessRecorder.h"

#include <bit>

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

} // namespace dtc::emulator
