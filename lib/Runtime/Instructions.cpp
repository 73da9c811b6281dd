#include "Instructions.h"

#include <algorithm>

namespace dtc::rt {

const char *nameOf(fbs::CollectiveKind kind) {
  switch (kind) {
  case fbs::CollectiveKind::AllReduce:
    return "all_reduce";
  case fbs::CollectiveKind::AllGather:
    return "all_gather";
  case fbs::CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case fbs::CollectiveKind::AllToAll:
    return "all_to_all";
  case fbs::CollectiveKind::Permute:
    return "permute";
  case fbs::CollectiveKind::Slice:
    return "slice";
  }
  return "collective";
}
namespace {

StridedTensor stridedTensor(const fbs::Tensor &tensor) {
  return {tensor.dtype(), dimsOf(tensor.shape()), dimsOf(tensor.strides())};
}

/// The ranks of the list that the rank is in.
std::vector<int> ranksOf(const fbs::Program &program, uint32_t group, int rank) {
  for (const fbs::RankList *list : *program.groups()->Get(group)->lists())
    if (std::find(list->ranks()->begin(), list->ranks()->end(), rank) != list->ranks()->end())
      return {list->ranks()->begin(), list->ranks()->end()};
  return {rank}; // not reached: every rank of the role is in one
}

/// Of the lists of the program's groups that have these ranks, the one that is least. All of these
/// ranks find the same, as their programs have the same groups of them.
std::vector<int> commonOrderOf(const fbs::Program &program, const std::vector<int> &ranks,
                               int rank) {
  std::vector<int> least = ranks;
  for (uint32_t group = 0; group < program.groups()->size(); ++group)
    if (std::vector<int> other = ranksOf(program, group, rank);
        other < least && std::ranges::is_permutation(other, ranks))
      least = std::move(other);
  return least;
}

/// Makes the spec of an instruction of one kind.
class Translation {
public:
  Translation(const fbs::Program &program, const RankPlace &place)
      : program(program), place(place) {}

  InstructionSpec result;

  void add(const fbs::Launch &op) {
    for (const fbs::Ref *ref : *op.args())
      result.refs.push_back(*ref);
    addScratch(op.scratch(), op.scratch_per_thread());
    LaunchSpec spec{program.kernels()->Get(op.kernel())->str(),
                    op.args()->size(),
                    op.extent(),
                    op.grain(),
                    op.scratch_per_thread(),
                    std::nullopt};
    if (const fbs::Geometry *geometry = op.geometry())
      spec.geometry = {geometry->blocks(), geometry->threads(), geometry->shared_bytes()};
    result.operation = std::move(spec);
  }

  void add(const fbs::Matmul &op) {
    addTensors({op.a(), op.b(), op.c()});
    for (const fbs::Ref *ref : {op.vector(), op.matrix(), op.addend()})
      if (ref)
        result.refs.push_back(*ref);
    addScratch(op.scratch(), op.scratch_bytes());
    result.operation = MatmulSpec{{stridedTensor(*op.a()), stridedTensor(*op.b()),
                                   stridedTensor(*op.c()), op.epilogue(), op.matrix() != nullptr,
                                   op.addend() != nullptr, roundsToTF32(*op.a())},
                                  op.scratch() ? op.scratch_bytes() : 0};
  }

  void add(const fbs::Conv &op) {
    addTensors({op.input(), op.weight(), op.output()});
    if (op.addend())
      result.refs.push_back(*op.addend());
    addScratch(op.scratch(), op.scratch_bytes());
    ConvCall call{op.kind(),
                  stridedTensor(*op.input()),
                  stridedTensor(*op.weight()),
                  stridedTensor(*op.output()),
                  dimsOf(op.strides()),
                  dimsOf(op.pad_low()),
                  dimsOf(op.pad_high()),
                  dimsOf(op.dilations()),
                  op.groups(),
                  op.addend() != nullptr,
                  roundsToTF32(*op.input())};
    result.operation = ConvSpec{std::move(call), op.scratch() ? op.scratch_bytes() : 0};
  }

  void add(const fbs::Attention &op) {
    AttentionCall call{op.kind(), {}, op.scale(), op.causal(), op.window()};
    for (const fbs::Tensor *tensor : *op.tensors()) {
      result.refs.push_back(*tensor->ref());
      call.tensors.push_back(stridedTensor(*tensor));
    }
    addScratch(op.scratch(), op.scratch_bytes());
    result.operation = AttentionSpec{std::move(call), op.scratch() ? op.scratch_bytes() : 0};
  }

  void add(const fbs::Collective &op) {
    CollectiveSpec spec;
    spec.kind = op.kind();
    spec.ranks = ranksOf(program, op.group(), place.rank);
    if (op.kind() == fbs::CollectiveKind::AllReduce)
      spec.commonOrder = commonOrderOf(program, spec.ranks, place.rank);
    spec.reduction = static_cast<Reduction>(op.reduce());
    spec.dtype = dtypeOf(op.dtype());
    spec.dim = op.dim();
    spec.concatDim = op.concat_dim();
    spec.sources = dimsOf(op.sources());
    for (const fbs::CollectiveOperand *operand : *op.operands()) {
      spec.shapes.push_back(dimsOf(operand->shape()));
      result.refs.insert(result.refs.end(), {*operand->source(), *operand->target()});
    }
    result.operation = std::move(spec);
  }

  void add(const fbs::Message &op) {
    MessageSpec spec;
    spec.receives = op.kind() == fbs::MessageKind::Receive;
    spec.peer = program.peers()->Get(op.peers())->ranks()->Get(static_cast<uint32_t>(place.position));
    spec.channel = op.channel();
    if (spec.peer < 0)
      return;
    for (const fbs::MessageBuffer *buffer : *op.buffers()) {
      spec.bytes.push_back(buffer->bytes());
      result.refs.push_back(buffer->ref());
    }
    result.operation = std::move(spec);
  }

  void add(const fbs::GroupPosition &op) {
    std::vector<int> ranks = ranksOf(program, op.group(), place.rank);
    result.refs = {*op.target()};
    result.operation =
        ConstantSpec{std::find(ranks.begin(), ranks.end(), place.rank) - ranks.begin()};
  }

  void add(const fbs::Zero &op) {
    result.refs = {*op.target()};
    result.operation = ZeroSpec{op.bytes()};
  }

  void add(const fbs::Copy &op) {
    result.refs = {*op.source(), *op.target()};
    result.operation = CopySpec{op.bytes()};
  }

private:
  bool roundsToTF32(const fbs::Tensor &operand) const {
    return program.tf32() && operand.dtype() == fbs::DType::F32;
  }
  void addTensors(std::initializer_list<const fbs::Tensor *> tensors) {
    for (const fbs::Tensor *tensor : tensors)
      result.refs.push_back(*tensor->ref());
  }
  void addScratch(const fbs::Ref *scratch, uint64_t bytes) {
    if (scratch && bytes > 0)
      result.refs.push_back(*scratch);
  }

  const fbs::Program &program;
  const RankPlace &place;
};

} // namespace

InstructionSpec specOf(const fbs::Program &program, const fbs::Instruction &instruction,
                       const RankPlace &place) {
  Translation translation(program, place);
  switch (instruction.op_type()) {
  case fbs::Op::Launch:
    translation.add(*instruction.op_as_Launch());
    break;
  case fbs::Op::Matmul:
    translation.add(*instruction.op_as_Matmul());
    break;
  case fbs::Op::Conv:
    translation.add(*instruction.op_as_Conv());
    break;
  case fbs::Op::Attention:
    translation.add(*instruction.op_as_Attention());
    break;
  case fbs::Op::Collective:
    translation.add(*instruction.op_as_Collective());
    break;
  case fbs::Op::Message:
    translation.add(*instruction.op_as_Message());
    break;
  case fbs::Op::GroupPosition:
    translation.add(*instruction.op_as_GroupPosition());
    break;
  case fbs::Op::Zero:
    translation.add(*instruction.op_as_Zero());
    break;
  case fbs::Op::Copy:
    translation.add(*instruction.op_as_Copy());
    break;
  case fbs::Op::NONE: // refused by ProgramView
    break;
  }
  return std::move(translation.result);
}

std::string nameOf(const fbs::Instruction &instruction) {
  return instruction.name() ? instruction.name()->str()
                            : fbs::EnumNameOp(instruction.op_type());
}

} // namespace dtc::rt
