#include "Emulator/PTX/ProgramBuilder.h"

#include <algorithm>

namespace dtc::emulator {

using ptx::Operand;

InstructionBuilder::InstructionBuilder(ptx::ProgramBuilder &program, const ptx::Instruction &source)
    : program(program), source(source), modifiers(source.modifiers) {
  made.line = source.line;
  made.operands.fill(kNoOperand);
  if (!source.guard.empty()) {
    made.guard = program.registerNumber(source.guard, source.line);
    made.isGuardNegated = source.isGuardNegated;
    if (program.registerAt(made.guard).bytes != 0)
      refuse("the guard is no predicate");
  }
}

void InstructionBuilder::refuse(const std::string &why) const {
  std::string text = source.opcode;
  for (const std::string &modifier : source.modifiers)
    text += "." + modifier;
  ptx::syntaxError(source.line, "'" + text + "': " + why);
}

const Operand &InstructionBuilder::operand(size_t index) const {
  if (index >= source.operands.size())
    refuse("it has " + std::to_string(source.operands.size()) + " operands, too few");
  return source.operands[index];
}

bool InstructionBuilder::take(std::string_view modifier) {
  auto at = std::find(modifiers.begin(), modifiers.end(), modifier);
  if (at == modifiers.end())
    return false;
  modifiers.erase(at);
  return true;
}

std::string InstructionBuilder::takeOneOf(std::initializer_list<std::string_view> choices) {
  for (std::string_view choice : choices)
    if (take(choice))
      return std::string(choice);
  return "";
}

std::string InstructionBuilder::takeType() {
  if (modifiers.empty())
    refuse("it has no type");
  std::string type = modifiers.back();
  modifiers.pop_back();
  return type;
}

void InstructionBuilder::takeFloatFlags() {
  if (take("ftz"))
    made.flags |= kFlushSubnormals;
  if (take("sat"))
    made.flags |= kSaturate;
}

void InstructionBuilder::add(OperandCode code) {
  if (made.operandCount == made.operands.size())
    refuse("it has too many operands");
  made.operands[made.operandCount++] = code;
}

unsigned InstructionBuilder::output(const Operand &operand, unsigned bytes) {
  if (operand.kind == Operand::Kind::Sink && bytes != 0) {
    add(program.scratch(bytes));
  } else {
    if (operand.kind != Operand::Kind::Register)
      refuse("a result is no register");
    uint32_t number = program.registerNumber(operand.name, source.line);
    const ptx::VirtualRegister &target = program.registerAt(number);
    if (target.special || target.bytes == 0 || (bytes != 0 && target.bytes != bytes))
      refuse("the result '" + operand.name + "' has another width");
    add(number);
    bytes = target.bytes;
  }
  ++made.destinations;
  return bytes;
}

unsigned InstructionBuilder::input(const Operand &operand, unsigned bytes) {
  switch (operand.kind) {
  case Operand::Kind::Register: {
    uint32_t number = program.registerNumber(operand.name, source.line);
    unsigned width = program.registerAt(number).bytes;
    if (width == 0 || (bytes != 0 && width != bytes))
      refuse("the operand '" + operand.name + "' has another width");
    add(number);
    return width;
  }
  case Operand::Kind::Float:
    if (bytes == 0)
      bytes = operand.floatBits / 8;
    if (operand.floatBits != bytes * 8)
      refuse("a literal has another width");
    add(program.constant(operand.bits, bytes));
    return bytes;
  case Operand::Kind::Integer: {
    if (bytes == 0)
      bytes = 8;
    uint64_t mask = bytes == 8 ? ~uint64_t(0) : (uint64_t(1) << bytes * 8) - 1;
    add(program.constant(operand.bits & mask, bytes));
    return bytes;
  }
  case Operand::Kind::Symbol: {
    auto symbol = program.symbol(operand.name);
    if (!symbol)
      refuse("unknown name '" + operand.name + "'");
    if (bytes == 0)
      bytes = 8;
    add(program.constant(symbol->address + operand.offset, bytes));
    return bytes;
  }
  default:
    refuse("an operand isn't a register or a number");
  }
}

void InstructionBuilder::predicateOutput(const Operand &operand) {
  if (operand.kind == Operand::Kind::Sink) {
    add(program.scratch(0));
  } else {
    if (operand.kind != Operand::Kind::Register)
      refuse("a result is no predicate");
    uint32_t number = program.registerNumber(operand.name, source.line);
    if (program.registerAt(number).bytes != 0)
      refuse("the result '" + operand.name + "' is no predicate");
    add(number);
  }
  ++made.destinations;
}

void InstructionBuilder::predicateInput(const Operand &operand) {
  if (operand.kind == Operand::Kind::Integer)
    return add(program.constant(operand.bits ? 0xffffffffu : 0, 0));
  if (operand.kind != Operand::Kind::Register)
    refuse("an operand is no predicate");
  uint32_t number = program.registerNumber(operand.name, source.line);
  if (program.registerAt(number).bytes != 0)
    refuse("the operand '" + operand.name + "' is no predicate");
  add(number);
}

void InstructionBuilder::constant(uint64_t bits, unsigned bytes) {
  add(program.constant(bits, bytes));
}

void InstructionBuilder::address(const Operand &operand, std::string_view space) {
  if (operand.kind != Operand::Kind::Address)
    refuse("an operand is no address");
  made.immediate = operand.offset;
  if (operand.name.empty())
    return constant(0, 8);
  if (auto symbol = program.symbol(operand.name)) {
    bool isGlobal = space == "global" || space == "const";
    if (symbol->space != space && !(isGlobal && symbol->space == "global"))
      refuse("'" + operand.name + "' lies in ." + symbol->space);
    return constant(symbol->address, 8);
  }
  uint32_t number = program.registerNumber(operand.name, source.line);
  unsigned width = program.registerAt(number).bytes;
  if (width != 8 && width != 4)
    refuse("the address '" + operand.name + "' is too narrow");
  if (width == 4)
    made.flags |= kAddressIs32;
  add(number);
}

uint32_t InstructionBuilder::branchTarget(const std::string &label) const {
  return program.label(label, source.line);
}

uint32_t InstructionBuilder::branchTable(const std::string &label) const {
  return program.branchTable(label, source.line);
}

void InstructionBuilder::noteSharedAccess(unsigned bytes) { program.noteSharedAccess(bytes); }

Instruction InstructionBuilder::finish(Handler handler) {
  if (!modifiers.empty())
    refuse("unknown modifier '" + modifiers.front() + "'");
  if (!handler && made.control == Control::None)
    refuse("this combination of types isn't supported");
  made.execute = handler;
  return made;
}

} // namespace dtc::emulator
