// 16-bit floats as lanes: conversions to and from 32 bits with one rounding.
#pragma once

#include "Emulator/Interpreter/Lanes.h"

namespace dtc::emulator {

enum class HalfKind { F16, BF16 };

template <HalfKind Kind> inline Lanes<float> widen(Lanes<uint16_t> bits) {
  if constexpr (Kind == HalfKind::F16)
    return convert<float, _Float16>(reinterpret<_Float16, uint16_t>(bits));
  else
    return reinterpret<float, uint32_t>(convert<uint32_t, uint16_t>(bits) << 16);
}

/// To the nearest, ties to even.
template <HalfKind Kind> inline Lanes<uint16_t> narrow(Lanes<float> value) {
  uint32_t isNan = maskOf(value != value);
  Lanes<uint16_t> result;
  if constexpr (Kind == HalfKind::F16) {
    result = reinterpret<uint16_t, _Float16>(convert<_Float16, float>(value));
  } else {
    Lanes<uint32_t> bits = reinterpret<uint32_t, float>(value);
    result = convert<uint16_t, uint32_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return select<uint16_t>(isNan, Lanes<uint16_t>(uint16_t(0x7fff)), result);
}

/// From 64 to 32 bits, inexact results with an odd last bit: a second rounding then equals a single
/// one.
inline Lanes<float> roundToOdd(Lanes<double> value) {
  Lanes<float> nearest = convert<float, double>(value);
  Lanes<double> back = convert<double, float>(nearest);
  uint32_t isInexact = maskOf((back != value) & (value == value));
  uint32_t isAway = maskOf(__builtin_elementwise_abs(back) > __builtin_elementwise_abs(value));
  Lanes<uint32_t> bits = reinterpret<uint32_t, float>(nearest);
  Lanes<uint32_t> truncated = select<uint32_t>(isAway, bits - 1, bits);
  return reinterpret<float, uint32_t>(select<uint32_t>(isInexact, truncated | 1, bits));
}

} // namespace dtc::emulator
