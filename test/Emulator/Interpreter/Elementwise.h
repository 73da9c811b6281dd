// Handlers made from a function of vectors, and the choice among types.
#pragma once

#include "Emulator/Interpreter/Warp.h"
#include "Emulator/PTX/Decoder.h"

namespace dtc::emulator {

template <typename T, auto F> void unary(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<T>(at.operands[0], F(warp.read<T>(at.operands[1])), mask);
}

template <typename T, auto F> void binary(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<T>(at.operands[0], F(warp.read<T>(at.operands[1]), warp.read<T>(at.operands[2])),
                mask);
}

template <typename T, auto F> void ternary(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<T>(
      at.operands[0],
      F(warp.read<T>(at.operands[1]), warp.read<T>(at.operands[2]), warp.read<T>(at.operands[3])),
      mask);
}

/// The element of a vector.
template <typename V> using ElementOf = std::remove_cvref_t<decltype(std::declval<V>()[0])>;

/// Chooses an instance of a handler by the name of an integer type; null where the type is none.
#define DTC_CHOOSE_INTEGER(type, handler, ...)                                                     \
  ((type) == "u16"   ? (Handler)handler<uint16_t, __VA_ARGS__>                                     \
   : (type) == "s16" ? (Handler)handler<int16_t, __VA_ARGS__>                                      \
   : (type) == "u32" ? (Handler)handler<uint32_t, __VA_ARGS__>                                     \
   : (type) == "s32" ? (Handler)handler<int32_t, __VA_ARGS__>                                      \
   : (type) == "u64" ? (Handler)handler<uint64_t, __VA_ARGS__>                                     \
   : (type) == "s64" ? (Handler)handler<int64_t, __VA_ARGS__>                                      \
                     : (Handler) nullptr)

/// Likewise for types without a sign.
#define DTC_CHOOSE_BITS(type, handler, ...)                                                        \
  ((type) == "b16"   ? (Handler)handler<uint16_t, __VA_ARGS__>                                     \
   : (type) == "b32" ? (Handler)handler<uint32_t, __VA_ARGS__>                                     \
   : (type) == "b64" ? (Handler)handler<uint64_t, __VA_ARGS__>                                     \
                     : (Handler) nullptr)

/// Takes a result and `inputs` operands, all as wide as the type.
inline void takeOperands(InstructionBuilder &builder, std::string_view type, unsigned inputs) {
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  if (builder.operandCount() != inputs + 1)
    builder.refuse("it has " + std::to_string(builder.operandCount()) + " operands instead of " +
                   std::to_string(inputs + 1));
  builder.output(builder.operand(0), bytes);
  for (unsigned i = 1; i <= inputs; ++i)
    builder.input(builder.operand(i), bytes);
}

} // namespace dtc::emulator
