// Faults in what instructions read and write: wrong places, stale values, buffers that are used
// again too early.
#include "MutantMaker.h"

namespace dtc::replay::test {
namespace {

/// The references of an instruction's operands: those it reads, then those it writes, in the
/// order of `reads` and `writes`. Empty for what has views of its own.
std::vector<fbs::Ref *> refsOf(fbs::InstructionT &instruction) {
  std::vector<fbs::Ref *> refs;
  if (auto *launch = instruction.op.AsLaunch()) {
    for (fbs::Ref &ref : launch->args)
      refs.push_back(&ref);
  } else if (auto *copy = instruction.op.AsCopy()) {
    refs = {copy->source.get(), copy->target.get()};
  } else if (auto *zero = instruction.op.AsZero()) {
    refs = {zero->target.get()};
  } else if (auto *collective = instruction.op.AsCollective()) {
    for (auto &operand : collective->operands)
      refs.push_back(operand->source.get());
    for (auto &operand : collective->operands)
      refs.push_back(operand->target.get());
  } else if (auto *matmul = instruction.op.AsMatmul()) {
    refs = {matmul->a->ref.get(), matmul->b->ref.get(), matmul->c->ref.get()};
  }
  return refs;
}

uint32_t valueOf(const fbs::InstructionT &instruction, size_t operand) {
  size_t reads = instruction.reads.size();
  return operand < reads ? instruction.reads[operand] : instruction.writes[operand - reads];
}

uint64_t scratchOf(const fbs::InstructionT &instruction) {
  if (const auto *launch = instruction.op.AsLaunch())
    return launch->scratch_per_thread;
  if (const auto *matmul = instruction.op.AsMatmul())
    return matmul->scratch_bytes;
  return 0;
}

void setScratch(fbs::InstructionT &instruction, const fbs::Ref &ref) {
  if (auto *launch = instruction.op.AsLaunch())
    launch->scratch = std::make_unique<fbs::Ref>(ref);
  else
    instruction.op.AsMatmul()->scratch = std::make_unique<fbs::Ref>(ref);
}

/// Whether an instruction may write a result over an operand.
bool mayReplace(const fbs::InstructionT &instruction, uint32_t result, uint32_t operand) {
  const auto *launch = instruction.op.AsLaunch();
  if (!launch)
    return instruction.op.type == fbs::Op::Collective;
  for (size_t i = 0; i < instruction.writes.size(); ++i)
    if (instruction.writes[i] == result && launch->in_place[i] >= 0 &&
        instruction.reads[launch->in_place[i]] == operand)
      return true;
  return false;
}

} // namespace

void MutantMaker::operandFaults(uint32_t index, size_t i, const std::string &place) {
  const fbs::FunctionT &function = *program.functions[index];
  fbs::InstructionT copy = *function.instructions[i];
  std::vector<fbs::Ref *> refs = refsOf(copy);
  auto edit = [&](const char *kind, size_t operand, std::function<void(fbs::Ref &)> change) {
    add(kind, place + " operand " + std::to_string(operand),
        [=](fbs::ProgramT &p) { change(*refsOf(*p.functions[index]->instructions[i])[operand]); });
  };
  for (size_t operand = 0; operand < refs.size(); ++operand) {
    const fbs::Value &value = function.values[valueOf(copy, operand)];
    if (value.bytes() == 0)
      continue;
    uint64_t offset = refs[operand]->offset();
    edit(operand < copy.reads.size() ? "wrong address read" : "wrong address written", operand,
         [=, bytes = value.bytes()](fbs::Ref &ref) { setOffset(ref, offset + bytes); });
    if (refs[operand]->scope() == Scope::Step)
      continue;
    edit("wrong stride", operand, [](fbs::Ref &ref) { setStride(ref, ref.stride() + 64); });
    edit("wrong scope", operand,
         [](fbs::Ref &ref) { ref = fbs::Ref(ref.offset(), 0, Scope::Step, ref.space()); });
  }
  bool isLaunch = copy.op.type == fbs::Op::Launch;
  for (size_t operand = 0; isLaunch && operand + 1 < copy.reads.size(); ++operand)
    if (refs[operand]->offset() != refs[operand + 1]->offset())
      add("swapped operands", place, [=](fbs::ProgramT &p) {
        auto swapped = refsOf(*p.functions[index]->instructions[i]);
        std::swap(*swapped[operand], *swapped[operand + 1]);
      });
  if (scratchOf(copy) && !refs.empty() && !copy.reads.empty())
    add("scratch over an operand", place, [=](fbs::ProgramT &p) {
      fbs::InstructionT &instruction = *p.functions[index]->instructions[i];
      setScratch(instruction, *refsOf(instruction)[0]);
    });
}

/// Operands are read where the first instruction of the same kind left a value of the same size. So
/// what was to be computed again is as it was before.
void MutantMaker::staleReads(uint32_t index, size_t i, const std::string &place,
                             const std::vector<Life> &lives) {
  const fbs::FunctionT &function = *program.functions[index];
  fbs::InstructionT copy = *function.instructions[i];
  std::vector<fbs::Ref *> refs = refsOf(copy);
  for (size_t operand = 0; operand < std::min(refs.size(), copy.reads.size()); ++operand) {
    uint32_t read = copy.reads[operand];
    const fbs::Value &value = function.values[read];
    if (lives[read].first < 0 || lives[read].isBound || value.bytes() == 0)
      continue;
    const fbs::InstructionT &maker = *function.instructions[lives[read].first];
    for (int before = 0; before < lives[read].first; ++before) {
      const fbs::InstructionT &earlier = *function.instructions[before];
      auto alike = std::ranges::find_if(earlier.writes, [&](uint32_t other) {
        const fbs::Value &stale = function.values[other];
        return stale.bytes() == value.bytes() && stale.ref().scope() == value.ref().scope() &&
               stale.ref().offset() != value.ref().offset();
      });
      if (earlier.op.type != maker.op.type || alike == earlier.writes.end())
        continue;
      uint64_t from = value.ref().offset(), to = function.values[*alike].ref().offset();
      add("stale value read", place + " operand " + std::to_string(operand), [=](fbs::ProgramT &p) {
        fbs::Ref &ref = *refsOf(*p.functions[index]->instructions[i])[operand];
        setOffset(ref, ref.offset() - from + to);
      });
      break;
    }
  }
}

/// A temporary is moved, wherever it is used, onto another.
MutantMaker::Plant MutantMaker::move(uint32_t index, uint32_t moved, uint32_t over) const {
  const fbs::FunctionT &function = *program.functions[index];
  uint64_t from = function.values[moved].ref().offset(), to = function.values[over].ref().offset();
  return [=](fbs::ProgramT &p) {
    fbs::FunctionT &f = *p.functions[index];
    fbs::Ref place = f.values[moved].ref();
    setOffset(place, to);
    setRef(f.values[moved], place);
    for (auto &instruction : f.instructions) {
      auto refs = refsOf(*instruction);
      for (size_t i = 0; i < refs.size(); ++i)
        if (valueOf(*instruction, i) == moved)
          setOffset(*refs[i], refs[i]->offset() - from + to);
    }
  };
}

/// Onto one that is needed afterwards, or that the same instruction still reads.
void MutantMaker::earlyReuse(uint32_t index, const std::vector<Life> &lives) {
  const fbs::FunctionT &function = *program.functions[index];
  auto isMovable = [&](uint32_t value) {
    return !lives[value].isBound && lives[value].first >= 0 && function.values[value].bytes() > 0;
  };
  for (uint32_t moved = 0; moved < lives.size(); ++moved)
    for (uint32_t over = 0; isMovable(moved) && over < lives.size(); ++over) {
      int when = lives[moved].first;
      if (!isMovable(over) || lives[over].first >= when || lives[over].last < when ||
          function.values[moved].bytes() > function.values[over].bytes() ||
          function.values[moved].ref().offset() == function.values[over].ref().offset())
        continue;
      std::string place = "@" + function.name + " value " + std::to_string(moved);
      if (lives[over].last > when)
        add("early reuse", place, move(index, moved, over));
      else if (!mayReplace(*function.instructions[when], moved, over))
        add("overwritten operand", place, move(index, moved, over));
      if (lives[over].last > when)
        break;
    }
}

} // namespace dtc::replay::test
