// From PTX text to programs that the interpreter carries out.
#pragma once

#include "Emulator/Interpreter/Program.h"
#include "Emulator/PTX/Syntax.h"

#include <optional>
#include <set>

namespace dtc::emulator::ptx {

struct DeclaredRegister {
  unsigned bytes; // of a lane; 0 for a predicate
  bool isSpecial;
  OperandCode place;
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

  /// Throws where the register wasn't declared. It has a place from the first time on.
  const DeclaredRegister &registerNamed(const std::string &name, int line);

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
  std::map<std::string, DeclaredRegister> registers;
  std::map<std::pair<unsigned, uint64_t>, OperandCode> constants;
  std::map<std::string, uint32_t> tables;
  std::shared_ptr<Program> program;
};

dtc::emulator::Instruction buildInstruction(ProgramBuilder &program, const Instruction &source);

/// Sets where the lanes that part at a branch meet again: at the branch's immediate post-dominator.
void setReconvergence(Program &program);

} // namespace dtc::emulator::ptx
