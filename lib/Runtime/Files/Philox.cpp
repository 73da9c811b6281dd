#include "dtc-rt/Files/Philox.h"

#include <cmath>
#include <numbers>

namespace dtc::rt {

std::array<uint32_t, 4> philox(uint64_t seed, RandomStream stream, uint32_t item, uint64_t index) {
  std::array<uint32_t, 4> x = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               item, static_cast<uint32_t>(stream)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * x[0], b = uint64_t(0xCD9E8D57) * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

namespace {

/// Two normal numbers from two words (Box and Muller).
void boxMuller(uint32_t a, uint32_t b, float *pair) {
  double radius = std::sqrt(-2.0 * std::log((a + 1.0) * 0x1p-32));
  double angle = 2.0 * std::numbers::pi * (b * 0x1p-32);
  pair[0] = static_cast<float>(radius * std::cos(angle));
  pair[1] = static_cast<float>(radius * std::sin(angle));
}

} // namespace

void drawNormal(uint64_t seed, RandomStream stream, uint32_t item, uint64_t begin, int64_t count,
                float *target) {
  float block[4];
  for (int64_t i = 0; i < count; ++i) {
    uint64_t index = begin + static_cast<uint64_t>(i);
    if (i == 0 || index % 4 == 0) {
      std::array<uint32_t, 4> words = philox(seed, stream, item, index / 4);
      boxMuller(words[0], words[1], block);
      boxMuller(words[2], words[3], block + 2);
    }
    target[i] = block[index % 4];
  }
}

} // namespace dtc::rt
