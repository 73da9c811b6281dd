#include "Emulator/NCCL/Elements.h"

#include "Emulator/Device/Fault.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace dtc::emulator {

using namespace dtc::cuda;

namespace {

struct BF16 {
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
  explicit BF16(float value) {
    uint32_t wide = std::bit_cast<uint32_t>(value);
    bits = std::isnan(value) ? 0x7fff
                             : static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  BF16() = default;
};

template <typename Sum> Sum combine(Sum a, Sum b, ncclRedOp_t operation) {
  switch (operation) {
  case ncclSum:
  case ncclAvg:
    return a + b;
  case ncclProd:
    return a * b;
  case ncclMax:
    return std::max(a, b);
  case ncclMin:
    return std::min(a, b);
  }
  throw Fault(ncclInvalidArgument, "unknown reduction");
}

template <typename T, typename Sum = T>
std::vector<std::byte> reduceAs(const std::vector<const std::byte *> &inputs, size_t count,
                                ncclRedOp_t operation) {
  std::vector<std::byte> result(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    Sum sum{};
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      T value;
      std::memcpy(&value, inputs[rank] + i * sizeof(T), sizeof(T));
      sum = rank == 0 ? static_cast<Sum>(value)
                      : combine<Sum>(sum, static_cast<Sum>(value), operation);
    }
    if (operation == ncclAvg)
      sum = static_cast<Sum>(sum / static_cast<Sum>(inputs.size()));
    T rounded(sum);
    std::memcpy(result.data() + i * sizeof(T), &rounded, sizeof(T));
  }
  return result;
}

} // namespace

unsigned bytesOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  }
  throw Fault(ncclInvalidArgument, "unknown type of elements");
}

std::string nameOf(ncclDataType_t type) {
  constexpr const char *names[] = {"i8",  "u8",  "i32", "u32", "i64",
                                   "u64", "f16", "f32", "f64", "bf16"};
  return type < std::size(names) ? names[type] : "?";
}

std::string nameOf(ncclRedOp_t operation) {
  constexpr const char *names[] = {"sum", "product", "maximum", "minimum", "average"};
  return operation < std::size(names) ? names[operation] : "?";
}

std::vector<std::byte> reduce(const std::vector<const std::byte *> &inputs, size_t count,
                              ncclDataType_t type, ncclRedOp_t operation) {
  switch (type) {
  case ncclInt8:
    return reduceAs<int8_t, int8_t>(inputs, count, operation);
  case ncclUint8:
    return reduceAs<uint8_t, uint8_t>(inputs, count, operation);
  case ncclInt32:
    return reduceAs<int32_t>(inputs, count, operation);
  case ncclUint32:
    return reduceAs<uint32_t>(inputs, count, operation);
  case ncclInt64:
    return reduceAs<int64_t>(inputs, count, operation);
  case ncclUint64:
    return reduceAs<uint64_t>(inputs, count, operation);
  case ncclFloat16:
    return reduceAs<_Float16, float>(inputs, count, operation);
  case ncclFloat32:
    return reduceAs<float>(inputs, count, operation);
  case ncclFloat64:
    return reduceAs<double>(inputs, count, operation);
  case ncclBfloat16:
    return reduceAs<BF16, float>(inputs, count, operation);
  }
  throw Fault(ncclInvalidArgument, "unknown type of elements");
}

} // namespace dtc::emulator
