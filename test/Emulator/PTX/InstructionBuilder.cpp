// From one PTX instruction to how it executes. Whatever isn't understood is an error.
#include "Emulator/Interpreter/Instructions.h"
#include "Emulator/PTX/ProgramBuilder.h"

#include <algorithm>

namespace dtc::emulator::ptx {

namespace {

using Decoded = dtc::emulator::Instruction;

const InstructionTable &instructionTable() {
  static const InstructionTable table = [] {
    InstructionTable made;
    addArithmetic(made);
    addLogic(made);
    addConversions(made);
    addWarpInstructions(made);
    addMatrixInstructions(made);
    addMemoryInstructions(made);
    return made;
  }();
  return table;
}

/// Without the modifiers of loads and stores that say nothing about the value: order, and caches.
std::string withoutHints(std::string name) {
  if (name.starts_with("ld.") || name.starts_with("st."))
    for (std::string_view hint : {".volatile.", ".relaxed.", ".gpu.", ".nc."})
      if (size_t at = name.find(hint); at != name.npos)
        name.erase(at, hint.size() - 1);
  return name;
}

class InstructionBuilder {
public:
  InstructionBuilder(ProgramBuilder &program, const Instruction &source)
      : program(program), source(source) {
    made.line = source.line;
    made.operands.fill(kNoOperand);
    if (source.guard.empty())
      return;
    const DeclaredRegister &guard = program.registerNamed(source.guard, source.line);
    made.guard = guard.place;
    made.isGuardNegated = source.isGuardNegated;
    if (guard.bytes != 0)
      refuse("the guard is no predicate");
  }

  Decoded build() {
    const std::string &name = source.name;
    if (name == "bra" || name == "bra.uni")
      return branch();
    if (name == "brx.idx" || name == "brx.idx.uni")
      return indirectBranch();
    if (name == "bar.sync" || name == "barrier.sync")
      return barrier();
    if (name == "ret" || name == "exit") {
      made.control = Control::Exit;
      made.execute = Warp::handle<&Warp::exit>;
      return made;
    }
    return fromTable();
  }

private:
  template <typename... Part> [[noreturn]] void refuse(const Part &...why) const {
    syntaxError(source.line, "'", source.name, "': ", why...);
  }

  const Operand &operand(size_t index, Operand::Kind kind, const char *what) const {
    if (index >= source.operands.size() || source.operands[index].kind != kind)
      refuse("it lacks ", what);
    return source.operands[index];
  }

  const DeclaredRegister &registerOf(const Operand &operand) const {
    return program.registerNamed(operand.name, source.line);
  }

  /// A register, a number, or the name of what lies in memory.
  Operand baseOf(const Operand &address) const {
    Operand base;
    base.name = address.name;
    base.kind = program.symbol(base.name) ? Operand::Kind::Symbol
                : base.name.empty()       ? Operand::Kind::Integer
                                          : Operand::Kind::Register;
    return base;
  }

  bool fits(const Operand &operand, unsigned bytes, bool isDestination) const {
    if (bytes == kAddress)
      return operand.kind == Operand::Kind::Address && fits(baseOf(operand), 8, false);
    switch (operand.kind) {
    case Operand::Kind::Register:
      return registerOf(operand).bytes == bytes &&
             !(isDestination && registerOf(operand).isSpecial);
    case Operand::Kind::Integer:
      return !isDestination;
    case Operand::Kind::Float:
      return !isDestination && operand.floatBits == bytes * 8;
    case Operand::Kind::Symbol:
      return !isDestination && bytes == 8;
    default:
      return false;
    }
  }

  /// Adds an operand that fits.
  void add(const Operand &operand, unsigned bytes) {
    made.operands.at(made.operandCount++) = codeOf(operand, bytes);
  }

  OperandCode codeOf(const Operand &operand, unsigned bytes) {
    if (bytes == kAddress) {
      constexpr const char *spaces[] = {"global", "shared", "param"};
      auto symbol = program.symbol(operand.name);
      if (symbol && symbol->space != spaces[static_cast<size_t>(made.space)])
        refuse("'", operand.name, "' lies in .", symbol->space);
      made.immediate = operand.offset;
      return codeOf(baseOf(operand), 8);
    }
    if (operand.kind == Operand::Kind::Register)
      return registerOf(operand).place;
    if (operand.kind == Operand::Kind::Symbol) {
      auto symbol = program.symbol(operand.name);
      if (!symbol)
        refuse("unknown name '", operand.name, "'");
      return program.constant(symbol->address + operand.offset, bytes);
    }
    if (bytes == 0) // a predicate
      return program.constant(operand.bits ? kAllLanes : 0, bytes);
    uint64_t mask = bytes == 8 ? ~uint64_t(0) : (uint64_t(1) << bytes * 8) - 1;
    return program.constant(operand.bits & mask, bytes);
  }

  /// The elements of vectors count as operands of their own.
  std::vector<Operand> flatOperands() const {
    std::vector<Operand> flat;
    for (const Operand &operand : source.operands)
      if (operand.kind == Operand::Kind::Vector)
        flat.insert(flat.end(), operand.elements.begin(), operand.elements.end());
      else
        flat.push_back(operand);
    return flat;
  }

  Decoded fromTable() {
    auto [row, end] = instructionTable().equal_range(withoutHints(source.name));
    if (row == end)
      syntaxError(source.line, "unknown instruction '", source.name, "'");
    std::vector<Operand> operands = flatOperands();
    auto isFitting = [&](const InstructionRow &row) {
      bool fit = operands.size() == row.bytes.size();
      for (size_t i = 0; fit && i < operands.size(); ++i)
        fit = fits(operands[i], row.bytes[i], i < row.destinations);
      return fit;
    };
    while (row != end && !isFitting(row->second))
      ++row;
    if (row == end)
      refuse("it has other operands, or they have other widths");
    made.space = row->second.space;
    for (size_t i = 0; i < operands.size(); ++i)
      add(operands[i], row->second.bytes[i]);
    if (made.space == Space::Shared)
      program.noteSharedAccess(row->second.accessed);
    made.execute = row->second.execute;
    return made;
  }

  Decoded branch() {
    made.control = Control::Branch;
    made.execute = Warp::handle<&Warp::branch>;
    made.target = program.label(operand(0, Operand::Kind::Symbol, "a label").name, source.line);
    return made;
  }

  Decoded indirectBranch() {
    const Operand &index = operand(0, Operand::Kind::Register, "an index");
    if (!fits(index, 4, false))
      refuse("the index hasn't 32 bits");
    add(index, 4);
    made.control = Control::IndirectBranch;
    made.execute = Warp::handle<&Warp::branchIndirect>;
    made.immediate = program.branchTable(
        operand(1, Operand::Kind::Symbol, "a list of targets").name, source.line);
    return made;
  }

  Decoded barrier() {
    const Operand &number = operand(0, Operand::Kind::Integer, "a constant number");
    if (source.operands.size() != 1)
      refuse("only barriers of all threads are supported");
    if (number.bits > 15)
      refuse("a block has 16 barriers");
    made.immediate = static_cast<int64_t>(number.bits);
    made.control = Control::Barrier;
    made.execute = Warp::handle<&Warp::arrive>;
    return made;
  }

  ProgramBuilder &program;
  const Instruction &source;
  Decoded made;
};

} // namespace

Decoded buildInstruction(ProgramBuilder &program, const Instruction &source) {
  return InstructionBuilder(program, source).build();
}

} // namespace dtc::emulator::ptx
