// Collectives and messages, through the queue's communicator.
#include "CpuOperations.h"

namespace dtc::rt {
namespace {

class CollectiveOperation : public CpuOperation {
public:
  CollectiveOperation(CpuQueue &queue, const CollectiveSpec &spec, std::string name)
      : CpuOperation(queue), spec(spec), name(std::move(name)),
        group(queue.communicator().group(spec.ranks)) {
    for (const Dims &shape : spec.shapes)
      transfers.push_back({nullptr, nullptr, shape});
  }

  Status run(const Address *addresses) override {
    for (Transfer &transfer : transfers) {
      transfer.source = *addresses++;
      transfer.target = *addresses++;
    }
    queue.communicator().setPurpose(name.c_str());
    Status status = perform(queue.communicator());
    queue.communicator().setPurpose("");
    return status;
  }

private:
  Status perform(Communicator &communicator) {
    using fbs::CollectiveKind;
    switch (spec.kind) {
    case CollectiveKind::AllReduce:
      return communicator.allReduce(group, spec.reduction, spec.dtype, transfers);
    case CollectiveKind::AllGather:
      return communicator.allGather(group, spec.dtype, transfers, spec.dim);
    case CollectiveKind::ReduceScatter:
      return communicator.reduceScatter(group, spec.reduction, spec.dtype, transfers, spec.dim);
    case CollectiveKind::AllToAll:
      return communicator.allToAll(group, spec.dtype, transfers[0], spec.dim, spec.concatDim);
    case CollectiveKind::Permute:
      return communicator.permute(group, spec.dtype, transfers[0], spec.sources);
    case CollectiveKind::Slice:
      slice(transfers[0]);
      return Status::ok();
    }
    return failed("unknown collective");
  }

  void slice(const Transfer &transfer) const {
    Dims part = transfer.shape;
    part[spec.dim] /= group.size();
    Box from{transfer.shape, Dims(part.size(), 0)}, to{part, Dims(part.size(), 0)};
    from.offset[spec.dim] = group.position * part[spec.dim];
    copyBox(part, transfer.target, to, transfer.source, from, sizeOf(spec.dtype));
  }

  CollectiveSpec spec;
  std::string name;
  RankGroup group;
  std::vector<Transfer> transfers;
};

template <typename Block> class MessageOperation : public CpuOperation {
public:
  MessageOperation(CpuQueue &queue, const MessageSpec &spec, std::string name)
      : CpuOperation(queue), peer(spec.peer), channel(spec.channel),
        name(std::move(name)) {
    for (uint64_t bytes : spec.bytes)
      blocks.push_back({nullptr, bytes});
  }

  Status run(const Address *addresses) override {
    for (Block &block : blocks)
      block.data = *addresses++;
    queue.communicator().setPurpose(name.c_str());
    Status status = perform(queue.communicator(), blocks);
    queue.communicator().setPurpose("");
    return status;
  }

private:
  Status perform(Communicator &communicator, std::span<const SendBlock> message) {
    return communicator.send(peer, channel, message);
  }
  Status perform(Communicator &communicator, std::span<const ReceiveBlock> message) {
    return communicator.receive(peer, channel, message);
  }

  int peer;
  uint32_t channel;
  std::string name;
  std::vector<Block> blocks;
};

} // namespace

MadeOperation makeCollective(CpuQueue &queue, const CollectiveSpec &spec, std::string name) {
  return made<CollectiveOperation>(queue, spec, std::move(name));
}

MadeOperation makeMessage(CpuQueue &queue, const MessageSpec &spec, std::string name) {
  if (spec.receives)
    return made<MessageOperation<ReceiveBlock>>(queue, spec, std::move(name));
  return made<MessageOperation<SendBlock>>(queue, spec, std::move(name));
}

} // namespace dtc::rt
