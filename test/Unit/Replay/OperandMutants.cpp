// Faults in what instructions read and write: wrong places, stale values, buffers that are used
// again too early.
#include "MutantMaker.h"

#include <cstdlib>
#include <iostream>

namespace dtc::replay::test {
namespace {

using Refs = std::vector<fbs::Ref *>;

/// What is added to a product takes part in it.
Refs refsOf(fbs::MatmulT &op) {
  using enum fbs::Epilogue;
  Refs reads = {op.a->ref.get(), op.b->ref.get()}, writes = {op.c->ref.get()};
  if (op.vector)
    (op.epilogue == SumA || op.epilogue == SumB ? writes : reads).push_back(op.vector.get());
  if (op.matrix)
    (op.epilogue == GeluGrad ? reads : writes).push_back(op.matrix.get());
  if (op.addend)
    reads.push_back(op.addend.get());
  reads.insert(reads.end(), writes.begin(), writes.end());
  return reads;
}

Refs refsOf(fbs::ConvT &op) {
  fbs::Ref *input = op.input->ref.get(), *weight = op.weight->ref.get(),
           *output = op.output->ref.get();
  switch (op.kind) {
  case fbs::ConvKind::InputGrad:
    return {output, weight, input};
  case fbs::ConvKind::WeightGrad:
    return op.addend ? Refs{input, output, op.addend.get(), weight} : Refs{input, output, weight};
  default:
    return {input, weight, output};
  }
}

Refs refsOf(fbs::AttentionT &op) {
  const bool isForward = op.kind == fbs::AttentionKind::Forward;
  const size_t firstWritten = isForward ? 3 : 6, bias = isForward ? 5 : 9;
  Refs reads, writes;
  for (size_t i = 0; i < op.tensors.size(); ++i)
    (i < firstWritten || i == bias ? reads : writes).push_back(op.tensors[i]->ref.get());
  reads.insert(reads.end(), writes.begin(), writes.end());
  return reads;
}

Refs refsOf(fbs::CollectiveT &op) {
  Refs refs;
  for (auto &operand : op.operands)
    refs.push_back(operand->source.get());
  for (auto &operand : op.operands)
    refs.push_back(operand->target.get());
  return refs;
}

/// Generated structs don't let their members change.
Refs refsOf(fbs::MessageT &op) {
  Refs refs;
  for (fbs::MessageBuffer &buffer : op.buffers)
    refs.push_back(const_cast<fbs::Ref *>(&buffer.ref()));
  return refs;
}

Refs refsOf(fbs::LaunchT &op) {
  Refs refs;
  for (fbs::Ref &ref : op.args)
    refs.push_back(&ref);
  return refs;
}

/// The references of an instruction's operands: those it reads, then those it writes, in the
/// order of `reads` and `writes`.
Refs refsOf(fbs::InstructionT &instruction) {
  switch (instruction.op.type) {
  case fbs::Op::Launch:
    return refsOf(*instruction.op.AsLaunch());
  case fbs::Op::Matmul:
    return refsOf(*instruction.op.AsMatmul());
  case fbs::Op::Conv:
    return refsOf(*instruction.op.AsConv());
  case fbs::Op::Attention:
    return refsOf(*instruction.op.AsAttention());
  case fbs::Op::Collective:
    return refsOf(*instruction.op.AsCollective());
  case fbs::Op::Message:
    return refsOf(*instruction.op.AsMessage());
  case fbs::Op::GroupPosition:
    return {instruction.op.AsGroupPosition()->target.get()};
  case fbs::Op::Zero:
    return {instruction.op.AsZero()->target.get()};
  case fbs::Op::Copy:
    return {instruction.op.AsCopy()->source.get(), instruction.op.AsCopy()->target.get()};
  default:
    return {};
  }
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
  if (const auto *conv = instruction.op.AsConv())
    return conv->scratch_bytes;
  const auto *attention = instruction.op.AsAttention();
  return attention ? attention->scratch_bytes : 0;
}

void setScratch(fbs::InstructionT &instruction, const fbs::Ref &ref) {
  auto scratch = std::make_unique<fbs::Ref>(ref);
  if (auto *launch = instruction.op.AsLaunch())
    launch->scratch = std::move(scratch);
  else if (auto *matmul = instruction.op.AsMatmul())
    matmul->scratch = std::move(scratch);
  else if (auto *conv = instruction.op.AsConv())
    conv->scratch = std::move(scratch);
  else
    instruction.op.AsAttention()->scratch = std::move(scratch);
}

/// Whether an instruction may write a result over an operand.
bool mayReplace(const fbs::InstructionT &instruction, uint32_t result, uint32_t operand) {
  if (const auto *product = instruction.op.AsMatmul(); product && product->addend)
    return result == instruction.writes.front() && operand == instruction.reads.back();
  if (const auto *conv = instruction.op.AsConv(); conv && conv->addend)
    return operand == instruction.reads.back();
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
  Refs refs = refsOf(copy);
  if (refs.size() != copy.reads.size() + copy.writes.size()) {
    std::cerr << "the operands of this instruction aren't known: " << place << "\n";
    std::abort(); // no fault would be planted into them
  }
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
  for (size_t part = copy.reads.size() + 1; part < refs.size(); ++part)
    if (valueOf(copy, part) == valueOf(copy, part - 1))
      edit("part written over another", part,
           [=, offset = refs[part - 1]->offset()](fbs::Ref &ref) { setOffset(ref, offset); });
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
  Refs refs = refsOf(copy);
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
