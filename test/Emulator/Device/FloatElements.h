// Floating-point elements in memory, as numbers.
#pragma once

#include <cstddef>

namespace dtc::emulator {

enum class FloatKind { F16, BF16, F32, F64 };

unsigned bytesOf(FloatKind kind);
double loadFloat(const std::byte *place, FloatKind kind);
/// To the nearest, ties to even.
void storeFloat(std::byte *place, FloatKind kind, double value);

} // namespace dtc::emulator
