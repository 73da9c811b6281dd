// Values of the 32 lanes of a warp, as clang's vectors: arithmetic on them becomes vector
// instructions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace dtc::emulator {

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t(0);

template <typename T> struct LanesOf {
  typedef T Type __attribute__((ext_vector_type(32)));
};
template <typename T> using Lanes = typename LanesOf<T>::Type;

typedef bool LaneBits __attribute__((ext_vector_type(32)));

template <unsigned Bytes> struct SignedOfSize;
template <> struct SignedOfSize<1> : std::type_identity<int8_t> {};
template <> struct SignedOfSize<2> : std::type_identity<int16_t> {};
template <> struct SignedOfSize<4> : std::type_identity<int32_t> {};
template <> struct SignedOfSize<8> : std::type_identity<int64_t> {};
template <typename T> using SignedLike = typename SignedOfSize<sizeof(T)>::type;
template <typename T> using UnsignedLike = std::make_unsigned_t<SignedLike<T>>;

/// For each lane, all ones where its bit is set.
template <typename T> inline Lanes<SignedLike<T>> expand(uint32_t mask) {
  return -__builtin_convertvector(__builtin_bit_cast(LaneBits, mask), Lanes<SignedLike<T>>);
}

/// A bit for each lane whose value isn't zero: the result of a comparison of vectors.
template <typename V> inline uint32_t maskOf(V truth) {
  return __builtin_bit_cast(uint32_t, __builtin_convertvector(truth != 0, LaneBits));
}

template <typename T> inline Lanes<T> select(uint32_t mask, Lanes<T> yes, Lanes<T> no) {
  return expand<T>(mask) ? yes : no;
}

template <typename To, typename From> inline Lanes<To> convert(Lanes<From> value) {
  return __builtin_convertvector(value, Lanes<To>);
}

template <typename To, typename From> inline Lanes<To> reinterpret(Lanes<From> value) {
  return __builtin_bit_cast(Lanes<To>, value);
}

/// Calls a function for each lane of a mask, the lowest first.
template <typename Function> inline void forLanes(uint32_t mask, Function &&function) {
  for (; mask; mask &= mask - 1)
    function(static_cast<unsigned>(std::countr_zero(mask)));
}

/// Applies a function of one value to each lane.
template <typename To, typename V, typename Function>
inline Lanes<To> mapLanes(V value, Function &&function) {
  Lanes<To> result;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    result[lane] = function(value[lane]);
  return result;
}

// 16-bit floats: conversions to and from 32 bits with one rounding.
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
