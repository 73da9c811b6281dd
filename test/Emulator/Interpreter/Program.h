// A kernel in the compact form that the interpreter carries out.
//
// PTX is decoded once, when its module is loaded. Each instruction has the function that executes
// it for all 32 lanes of a warp. Its operands are offsets into the warp's registers or into the
// kernel's constants. A register is an array of 32 values, a predicate a mask of 32 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtc::emulator {

class Warp;
struct Instruction;

/// Executes an instruction for the lanes of a mask, which isn't empty.
using Handler = void (*)(Warp &, const Instruction &, uint32_t mask);

/// Where an instruction goes on.
enum class Control : uint8_t { None, Branch, IndirectBranch, Exit, Barrier };

/// Where a load or a store finds its values.
enum class Space : uint8_t { Global, Shared, Parameter };

/// An operand: an offset in bytes, into the constants where the highest bit is set.
using OperandCode = uint32_t;
inline constexpr OperandCode kConstant = 0x80000000u;
inline constexpr OperandCode kNoOperand = 0x7fffffffu;

struct Instruction {
  Handler execute = nullptr;
  int64_t immediate = 0; // an address's offset, a barrier's number or a branch's table
  std::array<OperandCode, 14> operands; // as many as a product of matrices has
  OperandCode guard = kNoOperand;
  uint32_t target = 0;        // of a branch
  uint32_t reconvergence = 0; // where lanes that part at this branch meet again
  int32_t line = 0;
  uint8_t operandCount = 0;
  Control control = Control::None;
  bool isGuardNegated = false;
  Space space = Space::Global;
};

/// Values that a warp finds in registers when it starts.
enum class Special : uint8_t { Thread, Block, Threads, Blocks };

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
  uint32_t registerBytes = 0;  // of a warp
  uint32_t sharedBytes = 0;    // static; dynamic shared memory begins behind it
  uint32_t sharedGranule = 16; // the smallest access to shared memory, in bytes
  unsigned requiredThreads = 0;
};

} // namespace dtc::emulator
