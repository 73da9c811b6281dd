#include "Instructions.h"

namespace dtc::rt {
namespace {

class CollectiveInstruction : public Instruction {
public:
  CollectiveInstruction(const RankContext &context, const fbs::Collective &op, const char *name)
      : communicator(context.communicator), name(name), kind(op.kind()),
        reduction(static_cast<Reduction>(op.reduce())), dtype(dtypeOf(op.dtype())), dim(op.dim()),
        concatDim(op.concat_dim()), permutation(dimsOf(op.sources())) {
    group = context.groups[op.group()];
    for (const fbs::CollectiveOperand *operand : *op.operands()) {
      sources.emplace_back(context, *operand->source());
      targets.emplace_back(context, *operand->target());
      transfers.push_back({nullptr, nullptr, dimsOf(operand->shape())});
    }
  }

  Status run(const fbs::Call &call) override {
    for (size_t i = 0; i < transfers.size(); ++i) {
      transfers[i].source = sources[i].at(call);
      transfers[i].target = targets[i].at(call);
    }
    communicator.setPurpose(name);
    Status status = perform(transfers[0]);
    communicator.setPurpose("");
    return status;
  }

private:
  Status perform(const Transfer &first) {
    using Kind = fbs::CollectiveKind;
    switch (kind) {
    case Kind::AllReduce:
      return communicator.allReduce(group, reduction, dtype, transfers);
    case Kind::AllGather:
      return communicator.allGather(group, dtype, transfers, dim);
    case Kind::ReduceScatter:
      return communicator.reduceScatter(group, reduction, dtype, transfers, dim);
    case Kind::AllToAll:
      return communicator.allToAll(group, dtype, first, dim, concatDim);
    case Kind::Permute:
      return communicator.permute(group, dtype, first, permutation);
    case Kind::Slice:
      slice(first);
      return Status::ok();
    }
    return failed("unknown collective");
  }

  void slice(const Transfer &transfer) const {
    Dims part = transfer.shape;
    part[dim] /= group.size();
    Box from{transfer.shape, Dims(part.size(), 0)}, to{part, Dims(part.size(), 0)};
    from.offset[dim] = group.position * part[dim];
    copyBox(part, transfer.target, to, transfer.source, from, sizeOf(dtype));
  }

  Communicator &communicator;
  const char *name;
  Group group;
  fbs::CollectiveKind kind;
  Reduction reduction;
  DType dtype;
  int dim, concatDim;
  Dims permutation;
  std::vector<Place> sources, targets;
  std::vector<Transfer> transfers;
};

} // namespace

MadeInstruction makeCollective(const RankContext &context, const fbs::Collective &op,
                               const char *name) {
  return std::unique_ptr<Instruction>(std::make_unique<CollectiveInstruction>(context, op, name));
}

} // namespace dtc::rt
