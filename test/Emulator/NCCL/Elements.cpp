// Types of elements, and reductions over ranks in the order of the ranks.
#include "Emulator/NCCL/Clique.h"

#include "Emulator/Device/Fault.h"
#include "Emulator/Device/FloatElements.h"

#include <algorithm>
#include <cstring>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

using Inputs = std::vector<const std::byte *>;
using Bytes = std::vector<std::byte>;

/// Reduces elements as numbers of a type, which `load` and `store` convert from and to memory.
template <typename Sum, typename Load, typename Store>
Bytes reduceAs(const Inputs &inputs, size_t count, size_t bytes, ncclRedOp_t operation, Load &&load,
               Store &&store) {
  Bytes result(count * bytes);
  for (size_t at = 0; at < result.size(); at += bytes) {
    Sum sum = load(inputs.front() + at);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      Sum other = load(inputs[rank] + at);
      sum = operation == ncclSum   ? static_cast<Sum>(sum + other)
            : operation == ncclMax ? std::max(sum, other)
                                   : std::min(sum, other);
    }
    store(result.data() + at, sum);
  }
  return result;
}

template <typename T>
Bytes reduceIntegers(const Inputs &inputs, size_t count, ncclRedOp_t operation) {
  auto load = [](const std::byte *place) {
    T value;
    std::memcpy(&value, place, sizeof(T));
    return value;
  };
  auto store = [](std::byte *place, T sum) { std::memcpy(place, &sum, sizeof(T)); };
  return reduceAs<T>(inputs, count, sizeof(T), operation, load, store);
}

template <FloatKind Kind>
Bytes reduceFloats(const Inputs &inputs, size_t count, ncclRedOp_t operation) {
  using Sum = std::conditional_t<Kind == FloatKind::F64, double, float>;
  auto load = [](const std::byte *place) { return static_cast<Sum>(loadFloat(place, Kind)); };
  auto store = [](std::byte *place, Sum sum) { storeFloat(place, Kind, sum); };
  return reduceAs<Sum>(inputs, count, bytesOf(Kind), operation, load, store);
}

struct Element {
  ncclDataType_t type;
  const char *name;
  unsigned bytes;
  Bytes (*reduce)(const Inputs &inputs, size_t count, ncclRedOp_t operation);
};
constexpr Element kElements[] = {
    {ncclInt8, "i8", 1, reduceIntegers<int8_t>},
    {ncclUint8, "u8", 1, reduceIntegers<uint8_t>},
    {ncclInt32, "i32", 4, reduceIntegers<int32_t>},
    {ncclInt64, "i64", 8, reduceIntegers<int64_t>},
    {ncclFloat16, "f16", 2, reduceFloats<FloatKind::F16>},
    {ncclFloat32, "f32", 4, reduceFloats<FloatKind::F32>},
    {ncclFloat64, "f64", 8, reduceFloats<FloatKind::F64>},
    {ncclBfloat16, "bf16", 2, reduceFloats<FloatKind::BF16>},
};

const Element &elementOf(ncclDataType_t type) {
  const auto *found = std::ranges::find(kElements, type, &Element::type);
  require(found != std::end(kElements), ncclInvalidArgument, "unknown type of elements");
  return *found;
}

} // namespace

unsigned bytesOf(ncclDataType_t type) { return elementOf(type).bytes; }

std::string nameOf(ncclDataType_t type) { return elementOf(type).name; }

Bytes reduce(const Inputs &inputs, size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  return elementOf(type).reduce(inputs, count, operation);
}

} // namespace dtc::emulator
