// mov with its vectors, and cvta.
#include "Emulator/Interpreter/Elementwise.h"

namespace dtc::emulator {

namespace {

constexpr auto kSame = []<typename V>(V a) -> V { return a; };

void movePredicate(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.writePredicate(at.operands[0], warp.readPredicate(at.operands[1]), mask);
}

/// Joins the operands behind the first, the lowest first.
template <typename Part, typename Whole>
void pack(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<Whole> result(Whole(0));
  for (unsigned i = 1; i < at.operandCount; ++i)
    result |= convert<Whole, Part>(warp.read<Part>(at.operands[i])) << 8 * sizeof(Part) * (i - 1);
  warp.write<Whole>(at.operands[0], result, mask);
}

/// Splits the last operand into those before it.
template <typename Part, typename Whole>
void unpack(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<Whole> value = warp.read<Whole>(at.operands[at.operandCount - 1]);
  for (unsigned i = 0; i + 1 < at.operandCount; ++i)
    warp.write<Part>(at.operands[i], convert<Part, Whole>(value >> 8 * sizeof(Part) * i), mask);
}

using ptx::Operand;

Instruction decodeVectorMove(InstructionBuilder &builder, unsigned bytes) {
  bool isPack = builder.operand(1).kind == Operand::Kind::Vector;
  const Operand &vector = builder.operand(isPack ? 1 : 0);
  const Operand &whole = builder.operand(isPack ? 0 : 1);
  unsigned count = static_cast<unsigned>(vector.elements.size());
  if (count != 2 && count != 4)
    builder.refuse("vectors have 2 or 4 elements");
  unsigned part = bytes / count;
  if (isPack)
    builder.output(whole, bytes);
  for (const Operand &element : vector.elements)
    isPack ? builder.input(element, part) : builder.output(element, part);
  if (!isPack)
    builder.input(whole, bytes);
  if (part == 2 && bytes == 4)
    return builder.finish(isPack ? pack<uint16_t, uint32_t> : unpack<uint16_t, uint32_t>);
  if (part == 2 && bytes == 8)
    return builder.finish(isPack ? pack<uint16_t, uint64_t> : unpack<uint16_t, uint64_t>);
  if (part == 4 && bytes == 8)
    return builder.finish(isPack ? pack<uint32_t, uint64_t> : unpack<uint32_t, uint64_t>);
  return builder.finish(nullptr);
}

Instruction decodeMove(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  if (type == "pred") {
    builder.predicateOutput(builder.operand(0));
    builder.predicateInput(builder.operand(1));
    return builder.finish(movePredicate);
  }
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  if (builder.operand(0).kind == Operand::Kind::Vector ||
      builder.operand(1).kind == Operand::Kind::Vector)
    return decodeVectorMove(builder, bytes);
  takeOperands(builder, type, 1);
  std::string bits = "b" + std::to_string(bytes * 8);
  return builder.finish(DTC_CHOOSE_BITS(bits, unary, kSame));
}

/// Adds the immediate: generic addresses differ from a space's own by its window.
void addConstant(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<uint64_t>(at.operands[0],
                       warp.read<uint64_t>(at.operands[1]) + static_cast<uint64_t>(at.immediate),
                       mask);
}

Instruction decodeConvertAddress(InstructionBuilder &builder) {
  bool isToSpace = builder.take("to");
  std::string space = builder.takeOneOf({"global", "const", "shared", "local", "param"});
  if (space.empty())
    builder.refuse("it names no space");
  if (builder.takeType() != "u64")
    builder.refuse("only addresses of 64 bits are known");
  uint64_t window = space == "shared"  ? kSharedWindow
                    : space == "local" ? kLocalWindow
                    : space == "param" ? kParameterWindow
                                       : 0;
  builder.output(builder.operand(0), 8);
  builder.input(builder.operand(1), 8);
  builder.result().immediate = static_cast<int64_t>(isToSpace ? 0 - window : window);
  return builder.finish(addConstant);
}

} // namespace

void addMoves(DecodeTable &table) {
  table["mov"] = decodeMove;
  table["cvta"] = decodeConvertAddress;
}

} // namespace dtc::emulator
