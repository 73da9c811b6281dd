// Functions of floats that all widths share.
#pragma once

#include "Emulator/Interpreter/Lanes.h"
#include "Emulator/Interpreter/Program.h"

#include <limits>

namespace dtc::emulator {

template <typename T> inline Lanes<T> flushSubnormals(Lanes<T> value) {
  uint32_t isSmall = maskOf(__builtin_elementwise_abs(value) < std::numeric_limits<T>::min());
  return select<T>(isSmall, __builtin_elementwise_copysign(Lanes<T>(T(0)), value), value);
}

/// To [0, 1], NaN to 0.
template <typename T> inline Lanes<T> saturate(Lanes<T> value) {
  Lanes<T> low = value > 0 ? value : Lanes<T>(T(0));
  return low < 1 ? low : Lanes<T>(T(1));
}

/// The smaller one, -0 below +0; the other where one is NaN, unless `propagates`.
template <typename T> inline Lanes<T> minimum(Lanes<T> a, Lanes<T> b, bool propagates) {
  using Bits = SignedLike<T>;
  auto equal = (a == b) & (reinterpret<Bits, T>(a) < 0);
  Lanes<T> result = ((a < b) | equal) ? a : b;
  uint32_t aIsNan = maskOf(a != a), bIsNan = maskOf(b != b);
  Lanes<T> nan(std::numeric_limits<T>::quiet_NaN());
  if (propagates)
    return select<T>(aIsNan | bIsNan, nan, result);
  result = select<T>(aIsNan, b, result);
  return select<T>(bIsNan, a, result);
}

template <typename T> inline Lanes<T> maximum(Lanes<T> a, Lanes<T> b, bool propagates) {
  return -minimum<T>(-a, -b, propagates);
}

} // namespace dtc::emulator
