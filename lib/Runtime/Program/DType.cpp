#include "dtc-rt/Program/DType.h"

#include <array>
#include <cstring>

namespace dtc::rt {
namespace {

struct TypeInfo {
  const char *name;
  int64_t size;
  bool isFloat, isSigned;
  int digits; ///< of the mantissa, or of the integer without sign
  int exponent;
};

constexpr std::array<TypeInfo, 13> kTypes = {{
    {"F32", 4, true, true, 24, 8},
    {"F64", 8, true, true, 53, 11},
    {"BF16", 2, true, true, 8, 8},
    {"F16", 2, true, true, 11, 5},
    {"I64", 8, false, true, 63, 0},
    {"I32", 4, false, true, 31, 0},
    {"I16", 2, false, true, 15, 0},
    {"I8", 1, false, true, 7, 0},
    {"U8", 1, false, false, 8, 0},
    {"BOOL", 1, false, false, 1, 0},
    {"U16", 2, false, false, 16, 0},
    {"U32", 4, false, false, 32, 0},
    {"U64", 8, false, false, 64, 0},
}};

const TypeInfo &infoOf(DType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

// How one element is read into and written from the type that conversion goes
// through: float for the small floats, double, int64_t.
template <typename T> struct Plain {
  using Stored = T;
  static T load(T value) { return value; }
  template <typename V> static T store(V value) { return static_cast<T>(value); }
};
struct BFloat16 {
  using Stored = uint16_t;
  static float load(uint16_t bits) { return floatFromBFloat16(bits); }
  template <typename V> static uint16_t store(V value) {
    return bfloat16FromFloat(static_cast<float>(value));
  }
};
struct Boolean {
  using Stored = uint8_t;
  static int64_t load(uint8_t value) { return value != 0; }
  template <typename V> static uint8_t store(V value) { return value != 0; }
};

template <typename To, typename From>
void convertLoop(char *target, const char *source, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    typename From::Stored in;
    std::memcpy(&in, source + i * sizeof(in), sizeof(in));
    typename To::Stored out = To::store(From::load(in));
    std::memcpy(target + i * sizeof(out), &out, sizeof(out));
  }
}

template <typename Visitor> void visitFloat(DType dtype, Visitor &&visit) {
  switch (dtype) {
  case DType::F64:
    return visit(Plain<double>());
  case DType::BF16:
    return visit(BFloat16());
  case DType::F16:
    return visit(Plain<_Float16>());
  default:
    return visit(Plain<float>());
  }
}

template <typename Visitor> void visitInteger(DType dtype, Visitor &&visit) {
  switch (dtype) {
  case DType::I32:
    return visit(Plain<int32_t>());
  case DType::I16:
    return visit(Plain<int16_t>());
  case DType::I8:
    return visit(Plain<int8_t>());
  case DType::U8:
    return visit(Plain<uint8_t>());
  case DType::U16:
    return visit(Plain<uint16_t>());
  case DType::U32:
    return visit(Plain<uint32_t>());
  case DType::U64:
    return visit(Plain<uint64_t>());
  case DType::Bool:
    return visit(Boolean());
  default:
    return visit(Plain<int64_t>());
  }
}

} // namespace

int64_t sizeOf(DType dtype) { return infoOf(dtype).size; }
const char *nameOf(DType dtype) { return infoOf(dtype).name; }
bool isFloat(DType dtype) { return infoOf(dtype).isFloat; }
bool isInteger(DType dtype) { return !isFloat(dtype); }

std::optional<DType> parseDType(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (name == kTypes[i].name)
      return static_cast<DType>(i);
  return std::nullopt;
}

bool isLossless(DType from, DType to) {
  if (from == to)
    return true;
  const TypeInfo &a = infoOf(from), &b = infoOf(to);
  if (a.isFloat != b.isFloat)
    return false;
  if (a.isFloat)
    return a.digits <= b.digits && a.exponent <= b.exponent;
  return a.digits <= b.digits && (b.isSigned || !a.isSigned);
}

bool isConvertible(DType from, DType to) { return isFloat(from) == isFloat(to); }

void convert(DType to, char *target, DType from, const char *source, int64_t count) {
  if (to == from) {
    std::memcpy(target, source, static_cast<size_t>(count * sizeOf(to)));
    return;
  }
  if (isFloat(from)) {
    visitFloat(to, [&](auto t) {
      visitFloat(from,
                 [&](auto f) { convertLoop<decltype(t), decltype(f)>(target, source, count); });
    });
    return;
  }
  visitInteger(to, [&](auto t) {
    visitInteger(from,
                 [&](auto f) { convertLoop<decltype(t), decltype(f)>(target, source, count); });
  });
}

float floatFromBFloat16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

uint16_t bfloat16FromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40; // rounding could turn a NaN into infinity
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

} // namespace dtc::rt
