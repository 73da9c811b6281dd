// A kernel in the compact form that the interpreter carries out.
//
// PTX is decoded once, when its module is loaded. Each instruction has the function that executes
// it for all 32 lanes of a warp. Its operands are offsets into the warp's registers or into the
// kernel's constants. A register is an array of 32 values, a predicate a mask of 32 bits. Registers
// whose lives don't overlap share their place, so that a warp's registers stay in the processor's
// first cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtc::emulator {

class Warp;
struct Instruction;

/// Executes an instruction for the lanes of a mask, which isn't empty.
using Handler = void (*)(Warp &, const Instruction &, uint32_t mask);

/// What an instruction does beside its handler.
enum class Control : uint8_t { None, Branch, IndirectBranch, Exit, Barrier };

enum Flag : uint16_t {
  kFlushSubnormals = 1,
  kSaturate = 2,
  kRelu = 4,
  kAddressIs32 = 8,
  kNegatePredicate = 16,
};

/// An operand: an offset in bytes, into the constants where the highest bit is set.
using OperandCode = uint32_t;
inline constexpr OperandCode kConstant = 0x80000000u;
inline constexpr OperandCode kNoOperand = 0x7fffffffu;

struct Instruction {
  Handler execute = nullptr;
  int64_t immediate = 0; // an address's offset, or what the handler's comment says
  std::array<OperandCode, 14> operands;
  OperandCode guard = kNoOperand;
  uint32_t target = 0;        // of a branch
  uint32_t reconvergence = 0; // where lanes that part at this branch meet again
  int32_t line = 0;
  uint16_t flags = 0;
  uint8_t operandCount = 0;
  uint8_t destinations = 0; // the first operands are written
  Control control = Control::None;
  bool isGuardNegated = false;
  uint8_t mode = 0;  // a rounding mode or a comparison, as the handler's file defines them
  uint8_t width = 0; // bytes of a source register, where the type doesn't say
};

/// Values that a warp finds in registers when it starts.
enum class Special : uint8_t {
  ThreadX,
  ThreadY,
  ThreadZ,
  BlockX,
  BlockY,
  BlockZ,
  ThreadsX,
  ThreadsY,
  ThreadsZ,
  BlocksX,
  BlocksY,
  BlocksZ,
  Lane,
  WarpOfBlock,
  Warps,
  MaskEqual,
  MaskLess,
  MaskLessEqual,
  MaskGreater,
  MaskGreaterEqual,
};

struct SpecialRegister {
  Special special;
  OperandCode place;
};

struct Parameter {
  uint32_t offset, bytes;
};

struct Program {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::vector<uint32_t>> branchTables; // of indirect branches
  std::vector<std::byte> constants;
  std::vector<SpecialRegister> specials;
  std::vector<Parameter> parameters;
  std::vector<std::string> lines; // the PTX text, for messages
  uint32_t parameterBytes = 0;
  uint32_t registerBytes = 0; // of a warp
  uint32_t sharedBytes = 0;   // static; dynamic shared memory begins behind it
  uint32_t localBytes = 0;    // of a thread
  uint32_t sharedGranule = 4; // the smallest access to shared memory, in bytes
  unsigned maximumThreads = 0;
  unsigned requiredThreads = 0;
};

/// Where shared, local and parameter memory lie among generic addresses; the host can't touch
/// these.
inline constexpr uint64_t kSharedWindow = uint64_t(1) << 60;
inline constexpr uint64_t kLocalWindow = uint64_t(2) << 60;
inline constexpr uint64_t kParameterWindow = uint64_t(3) << 60;
inline constexpr uint64_t kWindowMask = uint64_t(15) << 60;

} // namespace dtc::emulator
