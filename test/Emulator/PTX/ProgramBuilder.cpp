#include "Emulator/PTX/ProgramBuilder.h"

#include <cstring>

namespace dtc::emulator::ptx {

namespace {

const std::map<std::string_view, Special> kSpecialNames = {{"%tid.x", Special::Thread},
                                                           {"%ctaid.x", Special::Block},
                                                           {"%ntid.x", Special::Threads},
                                                           {"%nctaid.x", Special::Blocks}};

uint32_t roundUp(uint64_t value, uint64_t multiple) {
  return static_cast<uint32_t>((value + multiple - 1) / multiple * multiple);
}

} // namespace

ProgramBuilder::ProgramBuilder(const Module &module, const Kernel &kernel,
                               const VariableAddresses &variables)
    : module(module), kernel(kernel), program(std::make_shared<Program>()) {
  for (const auto &[name, address] : variables)
    symbols[name] = {"global", address};
}

std::shared_ptr<Program> ProgramBuilder::build() {
  program->name = kernel.name;
  program->requiredThreads = kernel.requiredThreads;
  layOutParameters();
  layOutVariables();
  decodeInstructions();
  setReconvergence(*program);
  program->registerBytes = roundUp(program->registerBytes, 256);
  return program;
}

void ProgramBuilder::layOutParameters() {
  for (const Variable &parameter : kernel.parameters) {
    uint32_t offset = roundUp(program->parameterBytes, parameter.alignment);
    program->parameters.push_back({offset, static_cast<uint32_t>(parameter.bytes)});
    program->parameterBytes = offset + static_cast<uint32_t>(parameter.bytes);
    symbols[parameter.name] = {"param", offset};
  }
}

void ProgramBuilder::layOutVariables() {
  // A kernel has those of the module's shared variables that it names.
  std::set<std::string> used;
  for (const Instruction &instruction : kernel.instructions)
    for (const Operand &operand : instruction.operands)
      used.insert(operand.name);
  std::vector<const Variable *> dynamic;
  auto consider = [&](const Variable &variable) {
    if (variable.space == "shared" && variable.isExternal) {
      dynamic.push_back(&variable);
    } else if (variable.space == "shared") {
      uint32_t offset = roundUp(program->sharedBytes, variable.alignment);
      symbols[variable.name] = {"shared", offset};
      program->sharedBytes = offset + static_cast<uint32_t>(variable.bytes);
    }
  };
  for (const Variable &variable : module.variables)
    if (used.contains(variable.name))
      consider(variable);
  for (const Variable &variable : kernel.variables)
    consider(variable);
  program->sharedBytes = roundUp(program->sharedBytes, 16);
  for (const Variable *variable : dynamic)
    symbols[variable->name] = {"shared", program->sharedBytes};
}

void ProgramBuilder::decodeInstructions() {
  for (const ptx::Instruction &instruction : kernel.instructions)
    program->code.push_back(buildInstruction(*this, instruction));
  if (program->code.empty())
    syntaxError(kernel.line, "the kernel '", kernel.name, "' is empty");
}

const DeclaredRegister &ProgramBuilder::registerNamed(const std::string &name, int line) {
  if (auto at = registers.find(name); at != registers.end())
    return at->second;
  DeclaredRegister made{4, kSpecialNames.contains(name), program->registerBytes};
  if (made.isSpecial) {
    program->specials.push_back({kSpecialNames.at(name), made.place});
  } else {
    auto declared = kernel.registers.find(name);
    if (declared == kernel.registers.end())
      syntaxError(line, "unknown register '", name, "'");
    made.bytes = declared->second == "pred" ? 0 : bytesOfType(declared->second, line);
    if (made.bytes == 1)
      syntaxError(line, "registers of type ", declared->second, " aren't supported");
  }
  program->registerBytes += made.bytes == 0 ? 64 : made.bytes * 32;
  return registers[name] = made;
}

OperandCode ProgramBuilder::constant(uint64_t bits, unsigned bytes) {
  auto [at, isNew] = constants.try_emplace({bytes, bits}, 0);
  if (isNew) {
    // A predicate's constant is its mask; other constants are repeated for each lane.
    unsigned each = bytes == 0 ? 4 : bytes, count = bytes == 0 ? 1 : 32;
    size_t offset = roundUp(program->constants.size(), 64);
    program->constants.resize(offset + each * count);
    for (unsigned lane = 0; lane < count; ++lane)
      std::memcpy(program->constants.data() + offset + lane * each, &bits, each);
    at->second = static_cast<OperandCode>(offset) | kConstant;
  }
  return at->second;
}

std::optional<ProgramBuilder::Symbol> ProgramBuilder::symbol(const std::string &name) const {
  auto at = symbols.find(name);
  return at == symbols.end() ? std::nullopt : std::optional<Symbol>(at->second);
}

uint32_t ProgramBuilder::label(const std::string &name, int line) const {
  auto at = kernel.labels.find(name);
  if (at == kernel.labels.end())
    syntaxError(line, "unknown label '", name, "'");
  return static_cast<uint32_t>(at->second);
}

uint32_t ProgramBuilder::branchTable(const std::string &name, int line) {
  if (auto known = tables.find(name); known != tables.end())
    return known->second;
  auto at = kernel.branchTargets.find(name);
  if (at == kernel.branchTargets.end())
    syntaxError(line, "unknown list of targets '", name, "'");
  std::vector<uint32_t> targets;
  for (const std::string &target : at->second)
    targets.push_back(label(target, line));
  program->branchTables.push_back(std::move(targets));
  return tables[name] = static_cast<uint32_t>(program->branchTables.size() - 1);
}

void ProgramBuilder::noteSharedAccess(unsigned bytes) {
  program->sharedGranule = std::min(program->sharedGranule, bytes);
}

std::shared_ptr<const Program> decode(const Module &module, const Kernel &kernel,
                                      const VariableAddresses &variables,
                                      const std::vector<std::string> &lines) {
  std::shared_ptr<Program> program = ProgramBuilder(module, kernel, variables).build();
  program->lines = lines;
  return program;
}

} // namespace dtc::emulator::ptx
