// What lanes of a warp do together: shuffles, votes, matches and reductions.
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Block.h"
#include "Emulator/Interpreter/Elementwise.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

/// The lanes that a mask operand names; all of them must be here, and every lane here must be
/// named.
uint32_t requireMembers(Warp &warp, const Instruction &at, uint32_t mask, OperandCode operand) {
  Lanes<uint32_t> masks = warp.read<uint32_t>(operand);
  uint32_t members = masks[std::countr_zero(mask)];
  forLanes(mask, [&](unsigned lane) {
    if (masks[lane] != members || !(members >> lane & 1))
      warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, lane,
                "its member mask is " + hex(masks[lane]) +
                    ", which differs among lanes or lacks this one");
  });
  if (uint32_t missing = members & warp.liveLanes() & ~mask)
    warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask),
              "divergent: lanes " + hex(missing) + " of its member mask aren't here");
  return members;
}

enum Shuffle : uint8_t { kUp, kDown, kButterfly, kIndex };

/// Operands: value, predicate, a, b, c, members.
void shuffle(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[5]);
  Lanes<uint32_t> a = warp.read<uint32_t>(at.operands[2]), b = warp.read<uint32_t>(at.operands[3]),
                  c = warp.read<uint32_t>(at.operands[4]), result = a;
  uint32_t isInRange = 0;
  forLanes(mask, [&](unsigned lane) {
    uint32_t clamp = c[lane] & 31, segment = c[lane] >> 8 & 31, by = b[lane] & 31;
    auto last = static_cast<int>((lane & segment) | (clamp & ~segment));
    auto first = static_cast<int>(lane & segment);
    int source = at.mode == kUp          ? static_cast<int>(lane) - static_cast<int>(by)
                 : at.mode == kDown      ? static_cast<int>(lane + by)
                 : at.mode == kButterfly ? static_cast<int>(lane ^ by)
                                         : first | static_cast<int>(by & ~segment);
    bool isValid = at.mode == kUp ? source >= last : source <= last;
    if (!isValid)
      return;
    isInRange |= 1u << lane;
    if (!(mask >> source & 1))
      warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, lane,
                "it reads lane " + std::to_string(source) + ", which doesn't take part");
    result[lane] = a[static_cast<unsigned>(source)];
  });
  warp.write<uint32_t>(at.operands[0], result, mask);
  warp.writePredicate(at.operands[1], isInRange, mask);
}

Instruction decodeShuffle(InstructionBuilder &builder) {
  if (builder.takeType() != "b32" || !builder.take("sync"))
    builder.refuse("only shfl.sync of b32 is supported");
  std::string mode = builder.takeOneOf({"up", "down", "bfly", "idx"});
  builder.result().mode = mode == "up"     ? kUp
                          : mode == "down" ? kDown
                          : mode == "bfly" ? kButterfly
                                           : kIndex;
  bool hasPredicate = builder.operandCount() == 6;
  builder.output(builder.operand(0), 4);
  builder.predicateOutput(hasPredicate ? builder.operand(1) : ptx::Operand{});
  for (size_t i = hasPredicate ? 2 : 1; i < (hasPredicate ? 6u : 5u); ++i)
    builder.input(builder.operand(i), 4);
  return builder.finish(shuffle);
}

enum Vote : uint8_t { kAll, kAny, kUniform };

uint32_t voters(const Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t votes = warp.readPredicate(at.operands[1]);
  return (at.flags & kNegatePredicate ? ~votes : votes) & mask;
}

void vote(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[2]);
  uint32_t votes = voters(warp, at, mask);
  bool result = at.mode == kAll   ? votes == mask
                : at.mode == kAny ? votes != 0
                                  : votes == 0 || votes == mask;
  warp.writePredicate(at.operands[0], result ? kAllLanes : 0, mask);
}

void ballot(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[2]);
  warp.write<uint32_t>(at.operands[0], Lanes<uint32_t>(voters(warp, at, mask)), mask);
}

Instruction decodeVote(InstructionBuilder &builder) {
  if (!builder.take("sync"))
    builder.refuse("only vote.sync is known");
  std::string mode = builder.takeOneOf({"all", "any", "uni", "ballot"});
  builder.takeType();
  if (mode == "ballot")
    builder.output(builder.operand(0), 4);
  else
    builder.predicateOutput(builder.operand(0));
  builder.predicateInput(builder.operand(1));
  if (builder.operand(1).isNegated)
    builder.result().flags |= kNegatePredicate;
  builder.input(builder.operand(2), 4);
  builder.result().mode = mode == "all" ? kAll : mode == "any" ? kAny : kUniform;
  return builder.finish(mode == "ballot" ? ballot : vote);
}

template <typename T, bool> void matchAny(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[2]);
  Lanes<T> value = warp.read<T>(at.operands[1]);
  Lanes<uint32_t> result;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    result[lane] = maskOf(value == value[lane]) & mask;
  warp.write<uint32_t>(at.operands[0], result, mask);
}

Instruction decodeMatch(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  if (!builder.take("any") || !builder.take("sync"))
    builder.refuse("only match.any.sync is supported");
  builder.output(builder.operand(0), 4);
  builder.input(builder.operand(1), ptx::bytesOfType(type, builder.result().line));
  builder.input(builder.operand(2), 4);
  return builder.finish(DTC_CHOOSE_BITS(type, matchAny, true));
}

template <typename T, auto F> void reduce(Warp &warp, const Instruction &at, uint32_t mask) {
  requireMembers(warp, at, mask, at.operands[2]);
  Lanes<T> value = warp.read<T>(at.operands[1]);
  bool isFirst = true;
  T result = 0;
  forLanes(mask, [&](unsigned lane) {
    result = isFirst ? T(value[lane]) : F(result, T(value[lane]));
    isFirst = false;
  });
  warp.write<T>(at.operands[0], Lanes<T>(result), mask);
}

constexpr auto kSum = []<typename T>(T a, T b) -> T {
  return static_cast<T>(uint32_t(a) + uint32_t(b));
};
constexpr auto kMinimum = []<typename T>(T a, T b) -> T { return b < a ? b : a; };
constexpr auto kMaximum = []<typename T>(T a, T b) -> T { return b > a ? b : a; };
constexpr auto kAnd = []<typename T>(T a, T b) -> T { return a & b; };
constexpr auto kOr = []<typename T>(T a, T b) -> T { return a | b; };
constexpr auto kXor = []<typename T>(T a, T b) -> T { return a ^ b; };

Instruction decodeReduce(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  if (!builder.take("sync") || ptx::bytesOfType(type, builder.result().line) != 4)
    builder.refuse("only redux.sync of 32-bit integers is known");
  std::string name = builder.takeOneOf({"add", "min", "max", "and", "or", "xor"});
  bool isSigned = type == "s32";
  builder.output(builder.operand(0), 4);
  builder.input(builder.operand(1), 4);
  builder.input(builder.operand(2), 4);
  if (name == "min")
    return builder.finish(isSigned ? reduce<int32_t, kMinimum> : reduce<uint32_t, kMinimum>);
  if (name == "max")
    return builder.finish(isSigned ? reduce<int32_t, kMaximum> : reduce<uint32_t, kMaximum>);
  return builder.finish(name == "add"   ? (Handler)reduce<uint32_t, kSum>
                        : name == "and" ? (Handler)reduce<uint32_t, kAnd>
                        : name == "or"  ? (Handler)reduce<uint32_t, kOr>
                        : name == "xor" ? (Handler)reduce<uint32_t, kXor>
                                        : (Handler) nullptr);
}

void activeMask(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<uint32_t>(at.operands[0], Lanes<uint32_t>(mask), mask);
}

/// The lowest member is elected.
void elect(Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t members = requireMembers(warp, at, mask, at.operands[2]) & mask;
  auto leader = static_cast<uint32_t>(std::countr_zero(members));
  warp.write<uint32_t>(at.operands[0], Lanes<uint32_t>(leader), mask);
  warp.writePredicate(at.operands[1], 1u << leader, mask);
}

} // namespace

void addWarpInstructions(DecodeTable &table) {
  table["shfl"] = decodeShuffle;
  table["vote"] = decodeVote;
  table["match"] = decodeMatch;
  table["redux"] = decodeReduce;
  table["activemask"] = [](InstructionBuilder &builder) {
    builder.takeType();
    builder.output(builder.operand(0), 4);
    return builder.finish(activeMask);
  };
  table["elect"] = [](InstructionBuilder &builder) {
    builder.take("sync");
    builder.output(builder.operand(0), 4);
    builder.predicateOutput(builder.operand(1));
    builder.input(builder.operand(2), 4);
    return builder.finish(elect);
  };
}

} // namespace dtc::emulator
