#include "Emulator/Device/FloatElements.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace dtc::emulator {
namespace {

template <typename T> T read(const std::byte *place) {
  T value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

template <typename T> void write(std::byte *place, T value) {
  std::memcpy(place, &value, sizeof(value));
}

uint16_t roundToBf16(float value) {
  if (std::isnan(value))
    return 0x7fff;
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace

float roundToTF32(float value) {
  if (std::isnan(value))
    return value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000) & ~0x1fffU);
}

unsigned bytesOf(FloatKind kind) {
  switch (kind) {
  case FloatKind::F16:
  case FloatKind::BF16:
    return 2;
  case FloatKind::F32:
    return 4;
  case FloatKind::F64:
    return 8;
  }
  return 0;
}

double loadFloat(const std::byte *place, FloatKind kind) {
  switch (kind) {
  case FloatKind::F16:
    return static_cast<float>(std::bit_cast<_Float16>(read<uint16_t>(place)));
  case FloatKind::BF16:
    return std::bit_cast<float>(uint32_t(read<uint16_t>(place)) << 16);
  case FloatKind::F32:
    return read<float>(place);
  case FloatKind::F64:
    return read<double>(place);
  }
  return 0;
}

void storeFloat(std::byte *place, FloatKind kind, double value) {
  auto single = static_cast<float>(value);
  switch (kind) {
  case FloatKind::F16:
    return write(place, static_cast<_Float16>(single));
  case FloatKind::BF16:
    return write(place, roundToBf16(single));
  case FloatKind::F32:
    return write(place, single);
  case FloatKind::F64:
    return write(place, value);
  }
}

} // namespace dtc::emulator
