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
    return made;
  }();
  return table;
}

/// Modifiers of loads and stores that say nothing about the value: order, and caches.
const std::set<std::string_view> kHints = {"volatile", "relaxed", "gpu", "nc"};

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
    if (name.starts_with("ld.") || name.starts_with("st."))
      return access();
    if (name == "bra" || name == "bra.uni")
      return branch();
    if (name == "brx.idx" || name == "brx.idx.uni")
      return indirectBranch();
    if (name == "bar.sync" || name == "barrier.sync")
      return barrier();
    if (name == "ret" || name == "exit") {
      made.control = Control::Exit;
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

  bool fits(const Operand &operand, unsigned bytes, bool isDestination) const {
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
    if (made.operandCount == made.operands.size())
      refuse("it has too many operands");
    made.operands[made.operandCount++] = codeOf(operand, bytes);
  }

  OperandCode codeOf(const Operand &operand, unsigned bytes) {
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
    auto [row, end] = instructionTable().equal_range(source.name);
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
    for (size_t i = 0; i < operands.size(); ++i)
      add(operands[i], row->second.bytes[i]);
    made.execute = row->second.execute;
    return made;
  }

  std::vector<std::string> modifiers() const {
    std::vector<std::string> parts;
    for (size_t dot = source.name.find('.'); dot != source.name.npos;) {
      size_t end = source.name.find('.', dot + 1);
      parts.push_back(source.name.substr(dot + 1, end - dot - 1));
      dot = end;
    }
    return parts;
  }

  /// ld and st: hints, a space, perhaps v2 or v4, and a type.
  Decoded access() {
    bool isLoad = source.name.starts_with("ld");
    std::string space, type;
    unsigned count = 1;
    for (const std::string &modifier : modifiers()) {
      if (modifier == "v2" || modifier == "v4")
        count = modifier == "v2" ? 2 : 4;
      else if (modifier == "global" || modifier == "shared" || modifier == "param")
        space = modifier;
      else if (!kHints.contains(modifier))
        type = type.empty() ? modifier : type + "." + modifier;
    }
    if (space.empty() || source.operands.size() != 2)
      refuse("only accesses to .global, .shared and .param are known");
    unsigned bytes = bytesOfType(type, source.line);
    const Operand &values = source.operands[isLoad ? 0 : 1];
    std::vector<Operand> elements =
        values.kind == Operand::Kind::Vector ? values.elements : std::vector{values};
    unsigned width = bytes < 2 ? 2 : bytes;
    for (const Operand &element : elements)
      if (element.kind == Operand::Kind::Register)
        width = registerOf(element).bytes;
    for (const Operand &element : elements) {
      if (!fits(element, width, isLoad))
        refuse("a value has another width");
      add(element, width);
    }
    made.space = space == "global"   ? Space::Global
                 : space == "shared" ? Space::Shared
                                     : Space::Parameter;
    addAddress(operand(isLoad ? 1 : 0, Operand::Kind::Address, "an address"), space);
    if (made.space == Space::Shared)
      program.noteSharedAccess(bytes * count);
    if (elements.size() == count)
      made.execute = accessHandler(isLoad, type[0] == 's', bytes, width, count);
    if (!made.execute)
      refuse("this combination of types isn't supported");
    return made;
  }

  void addAddress(const Operand &operand, const std::string &space) {
    made.immediate = operand.offset;
    auto symbol = program.symbol(operand.name);
    if (symbol && symbol->space != space)
      refuse("'", operand.name, "' lies in .", symbol->space);
    Operand base;
    base.kind = symbol                 ? Operand::Kind::Symbol
                : operand.name.empty() ? Operand::Kind::Integer
                                       : Operand::Kind::Register;
    base.name = operand.name;
    if (!fits(base, 8, false))
      refuse("the address '", operand.name, "' hasn't 64 bits");
    add(base, 8);
  }

  Decoded branch() {
    made.control = Control::Branch;
    made.target = program.label(operand(0, Operand::Kind::Symbol, "a label").name, source.line);
    return made;
  }

  Decoded indirectBranch() {
    const Operand &index = operand(0, Operand::Kind::Register, "an index");
    if (!fits(index, 4, false))
      refuse("the index hasn't 32 bits");
    add(index, 4);
    made.control = Control::IndirectBranch;
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
