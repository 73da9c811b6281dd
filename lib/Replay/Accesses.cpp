#include "Accesses.h"

#include "Parts.h"

#include <algorithm>
#include <span>

namespace dtc::replay {

uint64_t sizeOf(fbs::DType dtype) {
  switch (dtype) {
  case fbs::DType::F64:
  case fbs::DType::I64:
    return 8;
  case fbs::DType::F32:
  case fbs::DType::I32:
    return 4;
  case fbs::DType::BF16:
  case fbs::DType::F16:
  case fbs::DType::I16:
    return 2;
  default:
    return 1;
  }
}

namespace {

constexpr uint64_t kPositionBytes = 8; // an i64

/// Bytes from the first to behind the last element.
uint64_t spanOf(const fbs::TensorT &tensor) {
  uint64_t last = 0;
  for (size_t i = 0; i < tensor.shape.size() && i < tensor.strides.size(); ++i)
    last += uint64_t(tensor.shape[i] - 1) * uint64_t(tensor.strides[i]);
  return (last + 1) * sizeOf(tensor.dtype);
}

/// True where both go by the same number of a call in the same way.
bool movesAlike(const fbs::Ref &a, const fbs::Ref &b) {
  return a.space() == b.space() && a.scope() == b.scope() &&
         (a.scope() == fbs::Scope::Step || a.stride() == b.stride());
}

std::string text(const fbs::Ref &ref) {
  std::string result = "offset " + std::to_string(ref.offset());
  if (ref.scope() != fbs::Scope::Step)
    result += " + " + std::to_string(ref.stride()) + " by " + fbs::EnumNameScope(ref.scope());
  if (ref.space() == fbs::Space::Host)
    result += " of the host";
  return result;
}

/// Bytes of a collective's target, from those of its source.
uint64_t targetBytes(fbs::CollectiveKind kind, uint64_t source, uint64_t ranks) {
  switch (kind) {
  case fbs::CollectiveKind::AllGather:
    return source * ranks;
  case fbs::CollectiveKind::ReduceScatter:
  case fbs::CollectiveKind::Slice:
    return source / ranks;
  default:
    return source;
  }
}

/// The operand that a result may replace, or -1. Sums are taken in place.
int64_t replaceable(const fbs::InstructionT &instruction, size_t result) {
  if (const auto *collective = instruction.op.AsCollective())
    return collective->kind == fbs::CollectiveKind::AllReduce ||
                   collective->kind == fbs::CollectiveKind::ReduceScatter
               ? static_cast<int64_t>(result)
               : -1;
  if (const auto *product = instruction.op.AsMatmul(); product && product->addend)
    return result == 0 ? static_cast<int64_t>(instruction.reads.size()) - 1 : -1;
  if (const auto *conv = instruction.op.AsConv(); conv && conv->addend)
    return static_cast<int64_t>(instruction.reads.size()) - 1;
  const auto *launch = instruction.op.AsLaunch();
  return launch && result < launch->in_place.size() ? launch->in_place[result] : -1;
}

bool beginsAlike(const Access &a, const Access &b) {
  return movesAlike(a.ref, b.ref) && a.ref.offset() == b.ref.offset();
}

/// Of what is scattered a part stays at the beginning, and the rest is spent. A kernel may put
/// zeros behind its operand.
bool mayReplace(const fbs::InstructionT &instruction, uint64_t before, uint64_t after) {
  const auto *collective = instruction.op.AsCollective();
  if (collective && collective->kind == fbs::CollectiveKind::ReduceScatter)
    return after <= before;
  return instruction.op.type == fbs::Op::Launch ? after >= before : after == before;
}

} // namespace

AccessCollector::Operand AccessCollector::Operand::of(const fbs::TensorT &tensor) {
  return {tensor.ref.get(), spanOf(tensor), true};
}

void AccessCollector::Operands::setScratch(const fbs::Ref *ref, uint64_t bytes) {
  if (ref && bytes) {
    scratch = *ref;
    scratchBytes = bytes;
  }
}

const fbs::InstructionT *writerOf(const fbs::FunctionT &function, uint32_t value) {
  for (const auto &instruction : function.instructions)
    if (std::ranges::find(instruction->writes, value) != instruction->writes.end())
      return instruction.get();
  return nullptr;
}

std::string describe(const fbs::FunctionT &function, const fbs::InstructionT &instruction) {
  auto at = std::ranges::find_if(function.instructions,
                                 [&](const auto &other) { return other.get() == &instruction; });
  std::string name = instruction.name.empty() ? fbs::EnumNameOp(instruction.op.type)
                                              : "'" + instruction.name + "'";
  return "instruction " + std::to_string(at - function.instructions.begin()) + " " + name;
}

std::string AccessCollector::collect(FunctionAccesses &result) {
  out = &result;
  written.resize(function.values.size());
  for (const fbs::BoundValue &argument : function.arguments)
    if (argument.value() < written.size())
      written[argument.value()] = true;
  if (std::string wrong = checkValues(); !wrong.empty())
    return wrong;
  for (const auto &instruction : function.instructions)
    if (std::string wrong = addInstruction(*instruction); !wrong.empty())
      return describe(function, *instruction) + ": " + wrong;
  return {};
}

std::string AccessCollector::checkValues() const {
  for (const fbs::Value &value : function.values)
    if (std::string wrong = checkPlace(value.ref(), value.bytes()); !wrong.empty())
      return wrong;
  return {};
}

std::string AccessCollector::checkPlace(const fbs::Ref &ref, uint64_t bytes) const {
  uint64_t arena =
      ref.space() == fbs::Space::Host ? program.host_arena_bytes : program.arena_bytes;
  uint64_t end;
  if (__builtin_mul_overflow(numberOf(largest, ref.scope()), ref.stride(), &end) ||
      __builtin_add_overflow(end, ref.offset(), &end) ||
      __builtin_add_overflow(end, bytes, &end) || end > arena)
    return "reaches out of the arena: " + text(ref);
  return {};
}

std::string AccessCollector::addInstruction(const fbs::InstructionT &instruction) {
  Operands operands;
  if (std::string wrong = operandsOf(instruction, operands); !wrong.empty())
    return wrong;
  if (operands.reads.size() != instruction.reads.size() ||
      operands.writes.size() != instruction.writes.size())
    return "has " + std::to_string(operands.reads.size()) + " operands and " +
           std::to_string(operands.writes.size()) + " results, but lists " +
           std::to_string(instruction.reads.size()) + " and " +
           std::to_string(instruction.writes.size());
  for (const auto *list : {&instruction.reads, &instruction.writes})
    for (uint32_t value : *list)
      if (value >= function.values.size())
        return "names a value that the function lacks: " + std::to_string(value);
  InstructionAccesses entry;
  entry.instruction = &instruction;
  entry.scratch = {operands.scratch, operands.scratchBytes, 0};
  if (std::string wrong = checkPlace(operands.scratch, operands.scratchBytes); !wrong.empty())
    return "scratch memory " + wrong;
  entry.reads = out->accesses.size();
  for (size_t i = 0; i < operands.reads.size(); ++i)
    if (std::string wrong = addRead(operands.reads[i], instruction.reads[i]); !wrong.empty())
      return "operand " + std::to_string(i) + " " + wrong;
  entry.writes = out->accesses.size();
  for (size_t i = 0; i < operands.writes.size(); ++i)
    if (std::string wrong = addResult(operands.writes, instruction.writes, i); !wrong.empty())
      return "result " + std::to_string(i) + " " + wrong;
  entry.end = out->accesses.size();
  markTakeovers(instruction, entry);
  out->instructions.push_back(entry);
  return {};
}

/// A kernel that reads a tensor twice may overwrite neither.
void AccessCollector::markTakeovers(const fbs::InstructionT &instruction,
                                    const InstructionAccesses &entry) {
  auto reads = std::span(out->accesses).subspan(entry.reads, entry.writes - entry.reads);
  for (size_t result = 0; result < entry.end - entry.writes; ++result) {
    int64_t operand = replaceable(instruction, result);
    Access &write = out->accesses[entry.writes + result];
    if (operand < 0 || operand >= int64_t(reads.size()) || !beginsAlike(reads[operand], write))
      continue;
    const uint64_t bytes = reads[operand].bytes;
    if (!mayReplace(instruction, bytes, write.bytes))
      continue;
    auto isOperand = [&](const Access &read) { return read.value == reads[operand].value; };
    if (instruction.op.type != fbs::Op::Launch || std::ranges::count_if(reads, isOperand) == 1)
      write.takesOver = bytes;
  }
}

std::string AccessCollector::addRead(const Operand &operand, uint32_t index) {
  const fbs::Value &value = function.values[index];
  uint64_t bytes = operand.hasBytes ? operand.bytes : value.bytes();
  uint64_t begin = operand.ref->offset(), start = value.ref().offset();
  if (!movesAlike(*operand.ref, value.ref()) || begin < start ||
      begin + bytes > start + value.bytes())
    return "is read at " + text(*operand.ref) + ", " + std::to_string(bytes) +
           " bytes, but its value lies at " + text(value.ref()) + ", " +
           std::to_string(value.bytes()) + " bytes";
  out->accesses.push_back({*operand.ref, bytes, index});
  return {};
}

std::string AccessCollector::addWrite(const Operand &operand, uint32_t index) {
  const fbs::Value &value = function.values[index];
  uint64_t bytes = operand.hasBytes ? operand.bytes : value.bytes();
  if (!movesAlike(*operand.ref, value.ref()) || operand.ref->offset() != value.ref().offset() ||
      bytes != value.bytes())
    return "is written at " + text(*operand.ref) + ", " + std::to_string(bytes) +
           " bytes, but its value lies at " + text(value.ref()) + ", " +
           std::to_string(value.bytes()) + " bytes";
  if (written[index])
    return "is written before: value " + std::to_string(index);
  written[index] = true;
  out->accesses.push_back({*operand.ref, bytes, index});
  return {};
}

/// All of a value, or a part that no other copy has written.
std::string AccessCollector::addCopied(const Operand &operand, uint32_t index) {
  const fbs::Value &value = function.values[index];
  const uint64_t start = value.ref().offset(), begin = operand.ref->offset(),
                 end = begin + operand.bytes;
  if (!movesAlike(*operand.ref, value.ref()) || begin < start || end > start + value.bytes())
    return addWrite(operand, index); // which says where it lies
  auto [known, isFirst] = copied.try_emplace(index);
  auto overlaps = [&](const Stretch &other) { return begin < other.second && other.first < end; };
  if ((isFirst && written[index]) || std::ranges::any_of(known->second, overlaps))
    return "is written before: value " + std::to_string(index);
  written[index] = true;
  known->second.emplace_back(begin, end);
  out->accesses.push_back({*operand.ref, operand.bytes, index});
  return {};
}

/// A value that is written in parts is entered as a whole, with the first of them.
std::string AccessCollector::addResult(const std::vector<Operand> &operands,
                                       const std::vector<uint32_t> &values, size_t i) {
  const uint32_t index = values[i];
  if (operands[i].isCopied)
    return addCopied(operands[i], index);
  if (!operands[i].part)
    return addWrite(operands[i], index);
  if (std::find(values.begin(), values.begin() + int64_t(i), index) != values.begin() + int64_t(i))
    return {};
  const fbs::Value &value = function.values[index];
  std::vector<Part> parts;
  for (size_t other = i; other < operands.size(); ++other) {
    if (values[other] != index)
      continue;
    const fbs::Ref &ref = *operands[other].ref;
    if (!movesAlike(ref, value.ref()) || ref.offset() < value.ref().offset())
      return addWrite(operands[other], index); // which says where it lies
    parts.push_back({ref.offset() - value.ref().offset(), operands[other].part});
  }
  if (!makeUp(parts, value.bytes()))
    return "is written in parts that don't make up its value: " + text(value.ref()) + ", " +
           std::to_string(value.bytes()) + " bytes";
  return addWrite({&value.ref(), value.bytes(), true}, index);
}

std::string AccessCollector::operandsOf(const fbs::InstructionT &instruction,
                                        Operands &operands) const {
  switch (instruction.op.type) {
  case fbs::Op::Launch:
    return operandsOf(*instruction.op.AsLaunch(), instruction.reads.size(), operands);
  case fbs::Op::Matmul:
    return operandsOf(*instruction.op.AsMatmul(), operands);
  case fbs::Op::Conv:
    return operandsOf(*instruction.op.AsConv(), operands);
  case fbs::Op::Attention:
    return operandsOf(*instruction.op.AsAttention(), operands);
  case fbs::Op::Collective:
    return operandsOf(*instruction.op.AsCollective(), operands);
  case fbs::Op::Message:
    return operandsOf(*instruction.op.AsMessage(), operands);
  case fbs::Op::GroupPosition:
    operands.writes = {{instruction.op.AsGroupPosition()->target.get(), kPositionBytes, true}};
    return checkGroup(instruction.op.AsGroupPosition()->group);
  case fbs::Op::Zero:
    operands.writes = {{instruction.op.AsZero()->target.get(), instruction.op.AsZero()->bytes, true}};
    return {};
  case fbs::Op::Copy: {
    const auto &op = *instruction.op.AsCopy();
    operands.reads = {{op.source.get(), op.bytes, true}};
    operands.writes = {{op.target.get(), op.bytes, true, nullptr, /*isCopied=*/true}};
    return {};
  }
  default:
    return "is of an unknown kind";
  }
}

std::string AccessCollector::operandsOf(const fbs::LaunchT &op, size_t numReads,
                                        Operands &operands) const {
  for (size_t i = 0; i < op.args.size(); ++i)
    (i < numReads ? operands.reads : operands.writes).push_back({&op.args[i], 0, false});
  operands.setScratch(op.scratch.get(), op.scratch_per_thread * program.threads);
  return {};
}

std::string AccessCollector::operandsOf(const fbs::MatmulT &op, Operands &operands) const {
  operands.reads = {Operand::of(*op.a), Operand::of(*op.b)};
  operands.writes = {Operand::of(*op.c)};
  operands.setScratch(op.scratch.get(), op.scratch_bytes);
  using enum fbs::Epilogue;
  const bool sums = op.epilogue == SumA || op.epilogue == SumB;
  const std::vector<int64_t> &shape = op.c->shape;
  if (op.epilogue != None && shape.size() != 2)
    return "has an epilogue, but no matrix as its result";
  if (op.vector)
    (sums ? operands.writes : operands.reads)
        .push_back({op.vector.get(),
                    uint64_t(shape[op.epilogue == SumA ? 0 : 1]) * sizeOf(op.c->dtype), true});
  if (op.matrix)
    (op.epilogue == GeluGrad ? operands.reads : operands.writes)
        .push_back({op.matrix.get(), operands.writes.front().bytes, true});
  if (op.addend)
    operands.reads.push_back({op.addend.get(), operands.writes.front().bytes, true});
  return {};
}

/// The gradient of the output takes the place of what is computed.
std::string AccessCollector::operandsOf(const fbs::ConvT &op, Operands &operands) const {
  Operand input = Operand::of(*op.input), weight = Operand::of(*op.weight),
          output = Operand::of(*op.output);
  if (op.kind == fbs::ConvKind::InputGrad)
    std::swap(input, output);
  else if (op.kind == fbs::ConvKind::WeightGrad)
    std::swap(weight, output);
  operands.reads = {input, weight};
  operands.writes = {output};
  if (op.addend)
    operands.reads.push_back({op.addend.get(), output.bytes, true});
  operands.setScratch(op.scratch.get(), op.scratch_bytes);
  return {};
}

std::string AccessCollector::operandsOf(const fbs::AttentionT &op, Operands &operands) const {
  const bool isForward = op.kind == fbs::AttentionKind::Forward;
  const size_t firstWritten = isForward ? 3 : 6, bias = isForward ? 5 : 9;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const bool isRead = i < firstWritten || i == bias;
    Operand operand = Operand::of(*op.tensors[i]);
    operand.part = isRead ? nullptr : op.tensors[i].get();
    (isRead ? operands.reads : operands.writes).push_back(operand);
  }
  operands.setScratch(op.scratch.get(), op.scratch_bytes);
  return {};
}

std::string AccessCollector::operandsOf(const fbs::CollectiveT &op, Operands &operands) const {
  if (std::string wrong = checkGroup(op.group); !wrong.empty())
    return wrong;
  uint64_t ranks = program.groups[op.group]->lists[0]->ranks.size();
  for (const auto &operand : op.operands) {
    uint64_t source = sizeOf(op.dtype);
    for (int64_t size : operand->shape)
      source *= uint64_t(size);
    operands.reads.push_back({operand->source.get(), source, true});
    operands.writes.push_back({operand->target.get(), targetBytes(op.kind, source, ranks), true});
  }
  return {};
}

std::string AccessCollector::operandsOf(const fbs::MessageT &op, Operands &operands) const {
  if (op.peers >= program.peers.size())
    return "names peers that the program lacks: " + std::to_string(op.peers);
  auto &list = op.kind == fbs::MessageKind::Send ? operands.reads : operands.writes;
  for (const fbs::MessageBuffer &buffer : op.buffers)
    list.push_back({&buffer.ref(), buffer.bytes(), true});
  return {};
}

std::string AccessCollector::checkGroup(uint32_t group) const {
  if (group >= program.groups.size() || program.groups[group]->lists.empty() ||
      program.groups[group]->lists[0]->ranks.empty())
    return "names a group that the program lacks: " + std::to_string(group);
  return {};
}

} // namespace dtc::replay
