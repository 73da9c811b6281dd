// From PTX text to programs that the interpreter carries out.
#pragma once

#include "Emulator/Interpreter/Program.h"
#include "Emulator/PTX/Syntax.h"

#include <functional>
#include <initializer_list>
#include <optional>

namespace dtc::emulator {

namespace ptx {
class ProgramBuilder;
}

/// What decodes one PTX instruction: takes its modifiers and operands, and sets how it executes.
/// Whatever isn't taken in the end is an error, so that nothing is ignored by accident.
class InstructionBuilder {
public:
  InstructionBuilder(ptx::ProgramBuilder &program, const ptx::Instruction &source);

  const std::string &opcode() const { return source.opcode; }
  size_t operandCount() const { return source.operands.size(); }
  const ptx::Operand &operand(size_t index) const;

  /// Takes a modifier where it is there.
  bool take(std::string_view modifier);

  /// Takes the first of some modifiers that is there; empty where none is.
  std::string takeOneOf(std::initializer_list<std::string_view> modifiers);

  /// Takes the last modifier, which names the type.
  std::string takeType();

  /// Takes .ftz and .sat.
  void takeFloatFlags();

  /// Adds the next operand. Destinations come first. A register must be as wide as `bytes`, unless
  /// that is 0; then any width is allowed, and returned.
  unsigned output(const ptx::Operand &operand, unsigned bytes);
  unsigned input(const ptx::Operand &operand, unsigned bytes);
  void predicateOutput(const ptx::Operand &operand);
  void predicateInput(const ptx::Operand &operand);
  void constant(uint64_t bits, unsigned bytes);

  /// Adds an address's base as an operand, and its offset as the immediate.
  void address(const ptx::Operand &operand, std::string_view space);

  uint32_t branchTarget(const std::string &label) const;
  uint32_t branchTable(const std::string &label) const;

  /// An access to shared memory of this many bytes.
  void noteSharedAccess(unsigned bytes);

  Instruction &result() { return made; }
  Instruction finish(Handler handler);

  [[noreturn]] void refuse(const std::string &why) const;

private:
  void add(OperandCode code);

  ptx::ProgramBuilder &program;
  const ptx::Instruction &source;
  std::vector<std::string> modifiers;
  Instruction made;
};

using DecodeFunction = Instruction (*)(InstructionBuilder &);
using DecodeTable = std::map<std::string, DecodeFunction, std::less<>>;

/// The instructions of each family, entered by name.
void addIntegerInstructions(DecodeTable &table);
void addBitInstructions(DecodeTable &table);
void addFloatInstructions(DecodeTable &table);
void addComparisons(DecodeTable &table);
void addConversions(DecodeTable &table);
void addMoves(DecodeTable &table);
void addMemoryInstructions(DecodeTable &table);
void addAtomics(DecodeTable &table);
void addWarpInstructions(DecodeTable &table);
void addControlInstructions(DecodeTable &table);

namespace ptx {

/// Addresses of the module's variables, by name.
using VariableAddresses = std::map<std::string, uint64_t>;

/// Decodes one kernel. Throws a Fault that names the line of what isn't supported.
std::shared_ptr<const Program> decode(const Module &module, const Kernel &kernel,
                                      const VariableAddresses &variables,
                                      const std::vector<std::string> &lines);

} // namespace ptx
} // namespace dtc::emulator
