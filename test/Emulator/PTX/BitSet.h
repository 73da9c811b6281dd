// A set of small numbers, as words of bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc::emulator::ptx {

class BitSet {
public:
  explicit BitSet(size_t size, bool isFull = false)
      : words((size + 63) / 64, isFull ? ~uint64_t(0) : 0) {}

  bool contains(size_t i) const { return words[i / 64] >> i % 64 & 1; }
  void insert(size_t i) { words[i / 64] |= uint64_t(1) << i % 64; }
  void erase(size_t i) { words[i / 64] &= ~(uint64_t(1) << i % 64); }

  void intersect(const BitSet &other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] &= other.words[i];
  }
  void unite(const BitSet &other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] |= other.words[i];
  }
  size_t count() const {
    size_t result = 0;
    for (uint64_t word : words)
      result += std::popcount(word);
    return result;
  }
  bool operator==(const BitSet &) const = default;

private:
  std::vector<uint64_t> words;
};

} // namespace dtc::emulator::ptx
