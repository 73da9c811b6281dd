// From PTX text to programs that the interpreter carries out.
#pragma once

#include "Emulator/Interpreter/Program.h"
#include "Emulator/PTX/Syntax.h"

#include <optional>
#include <set>

namespace dtc::emulator::ptx {

/// A register before it has a place.
struct VirtualRegister {
  unsigned bytes; // of a lane; 0 for a predicate
  std::optional<Special> special;
};

/// Addresses of the module's variables, by name.
using VariableAddresses = std::map<std::string, uint64_t>;

/// Decodes one kernel. Throws a Fault that names the line of what isn't supported.
std::shared_ptr<const Program> decode(const Module &module, const Kernel &kernel,
                                      const VariableAddresses &variables,
                                      const std::vector<std::string> &lines);

/// What the instructions of a kernel share while it is decoded.
class ProgramBuilder {
public:
  ProgramBuilder(const Module &module, const Kernel &kernel, const VariableAddresses &variables);

  std::shared_ptr<Program> build();

  /// The number of a register, and its width; throws where it wasn't declared.
  uint32_t registerNumber(const std::string &name, int line);
  const VirtualRegister &registerAt(uint32_t number) const { return registers[number]; }

  OperandCode constant(uint64_t bits, unsigned bytes);

  /// The address that a name means: of a variable, a parameter, or shared memory.
  struct Symbol {
    std::string space;
    uint64_t address;
  };
  std::optional<Symbol> symbol(const std::string &name) const;

  uint32_t label(const std::string &name, int line) const;
  uint32_t branchTable(const std::string &name, int line);
  void noteSharedAccess(unsigned bytes);

private:
  void layOutParameters();
  void layOutVariables();
  void decodeInstructions();

  const Module &module;
  const Kernel &kernel;
  std::map<std::string, Symbol> symbols;
  std::vector<VirtualRegister> registers;
  std::map<std::string, uint32_t> numbers;
  std::map<std::pair<unsigned, uint64_t>, OperandCode> constants;
  std::map<std::string, uint32_t> tables;
  std::shared_ptr<Program> program;
};

dtc::emulator::Instruction buildInstruction(ProgramBuilder &program, const Instruction &source);

/// Sets where the lanes that part at a branch meet again: at the branch's immediate post-dominator.
void setReconvergence(Program &program);

/// Gives each virtual register a place; those whose lives don't overlap share places.
void placeRegisters(Program &program, const std::vector<VirtualRegister> &registers);

/// The control flow of a program: its basic blocks, in the order of the code.
struct BasicBlock {
  uint32_t begin, end;
  std::vector<uint32_t> successors; // blocks; none where the block exits
};
std::vector<BasicBlock> basicBlocks(const Program &program);

} // namespace dtc::emulator::ptx
