#include "Emulator/NCCL/Elements.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/FloatElements.h"

#include <algorithm>
#include <cstring>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

struct Element {
  ncclDataType_t type;
  const char *name;
  unsigned bytes;
};
constexpr Element kElements[] = {{ncclInt8, "i8", 1},     {ncclUint8, "u8", 1},
                                 {ncclInt32, "i32", 4},   {ncclInt64, "i64", 8},
                                 {ncclFloat16, "f16", 2}, {ncclFloat32, "f32", 4},
                                 {ncclFloat64, "f64", 8}, {ncclBfloat16, "bf16", 2}};

const Element &elementOf(ncclDataType_t type) {
  const auto *found = std::ranges::find(kElements, type, &Element::type);
  require(found != std::end(kElements), ncclInvalidArgument, "unknown type of elements");
  return *found;
}

template <typename Sum> Sum combine(Sum a, Sum b, ncclRedOp_t operation) {
  switch (operation) {
  case ncclSum:
    return a + b;
  case ncclMax:
    return std::max(a, b);
  case ncclMin:
    return std::min(a, b);
  default:
    throw Fault(ncclInvalidArgument, "the emulator lacks a reduction");
  }
}

/// Reduces elements as numbers of a type, which `load` and `store` convert from and to memory.
template <typename Sum, typename Load, typename Store>
std::vector<std::byte> reduceAs(const ReductionOf &of, Load &&load, Store &&store) {
  const unsigned bytes = bytesOf(of.type);
  std::vector<std::byte> result(of.count * bytes);
  for (size_t at = 0; at < result.size(); at += bytes) {
    Sum sum = load(of.inputs.front() + at);
    for (size_t rank = 1; rank < of.inputs.size(); ++rank)
      sum = combine<Sum>(sum, load(of.inputs[rank] + at), of.operation);
    store(result.data() + at, sum);
  }
  return result;
}

template <typename T> std::vector<std::byte> reduceIntegers(const ReductionOf &of) {
  auto load = [](const std::byte *place) {
    T value;
    std::memcpy(&value, place, sizeof(T));
    return value;
  };
  return reduceAs<T>(of, load,
                     [](std::byte *place, T sum) { std::memcpy(place, &sum, sizeof(T)); });
}

template <typename Sum> std::vector<std::byte> reduceFloats(const ReductionOf &of, FloatKind kind) {
  auto load = [&](const std::byte *place) { return static_cast<Sum>(loadFloat(place, kind)); };
  return reduceAs<Sum>(of, load, [&](std::byte *place, Sum sum) { storeFloat(place, kind, sum); });
}

} // namespace

unsigned bytesOf(ncclDataType_t type) { return elementOf(type).bytes; }

std::string nameOf(ncclDataType_t type) { return elementOf(type).name; }

std::string nameOf(ncclRedOp_t operation) {
  constexpr const char *names[] = {"sum", "product", "maximum", "minimum", "average"};
  return operation < std::size(names) ? names[operation] : "?";
}

std::vector<std::byte> reduce(const ReductionOf &of) {
  switch (of.type) {
  case ncclInt8:
    return reduceIntegers<int8_t>(of);
  case ncclUint8:
    return reduceIntegers<uint8_t>(of);
  case ncclInt32:
    return reduceIntegers<int32_t>(of);
  case ncclInt64:
    return reduceIntegers<int64_t>(of);
  case ncclFloat16:
    return reduceFloats<float>(of, FloatKind::F16);
  case ncclFloat32:
    return reduceFloats<float>(of, FloatKind::F32);
  case ncclFloat64:
    return reduceFloats<double>(of, FloatKind::F64);
  case ncclBfloat16:
    return reduceFloats<float>(of, FloatKind::BF16);
  default:
    throw Fault(ncclInvalidArgument, "unknown type of elements");
  }
}

} // namespace dtc::emulator
