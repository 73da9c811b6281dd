// Floating-point elements in memory, as numbers.
#pragma once

#include <cstddef>

namespace dtc::emulator {

enum class FloatKind { F16, BF16, F32, F64 };

unsigned bytesOf(FloatKind kind);
double loadFloat(const std::byte *place, FloatKind kind);
/// To the nearest, ties to even.
void storeFloat(std::byte *place, FloatKind kind, double value);

/// To the nearest number with 10 bits behind the point, ties away from zero, as cvt.rna.tf32.f32.
float roundToTF32(float value);

} // namespace dtc::emulator
