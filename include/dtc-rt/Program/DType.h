// Element types of files and of the arena, and conversion between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtc::rt {

/// The first ten are those of Program.fbs, in its order; the others occur in
/// data files only.
enum class DType : uint8_t { F32, F64, BF16, F16, I64, I32, I16, I8, U8, Bool, U16, U32, U64 };

int64_t sizeOf(DType dtype);
/// As in safetensors: "F32", "BF16", "I64", "BOOL", ...
const char *nameOf(DType dtype);
std::optional<DType> parseDType(std::string_view name);
bool isFloat(DType dtype);
bool isInteger(DType dtype);

/// True when every value of `from` is one of `to`.
bool isLossless(DType from, DType to);
/// True when `convert` can: the same type, float to float, integer to integer.
bool isConvertible(DType from, DType to);
/// Converts `count` elements, floats rounding to nearest even; needs
/// isConvertible. Neither side needs to be aligned.
void convert(DType to, char *target, DType from, const char *source, int64_t count);

float floatFromBFloat16(uint16_t bits);
uint16_t bfloat16FromFloat(float value);

} // namespace dtc::rt
