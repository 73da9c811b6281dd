// Collectives and messages, through NCCL.
//
// NCCL moves contiguous bytes. A collective along an inner dimension packs each rank's part, or
// what it gets from each. It does so in the room of its queue (CudaQueue::packed), by strided
// copies:
//
//   all_gather of 2x3 along dimension 1, two ranks
//     packed  a0 a1 a2 a3 a4 a5 | b0 b1 b2 b3 b4 b5      as NCCL gathers them
//     target  a0 a1 a2 b0 b1 b2                          a row of each part, in turn
//             a3 a4 a5 b3 b4 b5
#include "CudaOperations.h"

#include <algorithm>

namespace dtc::rt::cuda {
namespace {

using fbs::CollectiveKind;

/// Rows of bytes, a pitch apart.
struct Rows {
  uint64_t count = 1, bytes = 0;
};

/// The rows of a row-major tensor whose parts along `dim` lie side by side.
Rows rowsOf(const Dims &shape, int dim, int64_t elementBytes) {
  std::span all(shape);
  auto split = static_cast<size_t>(dim);
  return {static_cast<uint64_t>(product(all.first(split))),
          static_cast<uint64_t>(product(all.subspan(split)) * elementBytes)};
}

Status copyRows(const CudaQueue &queue, Address target, uint64_t targetPitch, Address source,
                uint64_t sourcePitch, const Rows &rows) {
  uint64_t total = rows.count * rows.bytes;
  if (total == 0 || (target == source && targetPitch == sourcePitch))
    return Status::ok();
  bool isDense = targetPitch == rows.bytes && sourcePitch == rows.bytes;
  if (isDense || rows.count == 1)
    return DTC_CUDA_CALL(queue.driver, cuMemcpyDtoDAsync_v2, pointerOf(target), pointerOf(source),
                         total, queue.stream);
  CUDA_MEMCPY2D copy = {};
  copy.srcDevice = pointerOf(source);
  copy.srcPitch = sourcePitch;
  copy.dstDevice = pointerOf(target);
  copy.dstPitch = targetPitch;
  copy.WidthInBytes = rows.bytes;
  copy.Height = rows.count;
  return DTC_CUDA_CALL(queue.driver, cuMemcpy2DAsync_v2, &copy, queue.stream);
}

Result<ncclDataType_t> reducedType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return ncclFloat32;
  case DType::F64:
    return ncclFloat64;
  case DType::BF16:
    return ncclBfloat16;
  case DType::F16:
    return ncclFloat16;
  case DType::I64:
    return ncclInt64;
  case DType::I32:
    return ncclInt32;
  case DType::I8:
    return ncclInt8;
  case DType::U8:
    return ncclUint8;
  default:
    return refused(std::string("NCCL does not reduce elements of type ") + nameOf(dtype));
  }
}

ncclRedOp_t reductionOf(Reduction kind) {
  switch (kind) {
  case Reduction::Sum:
    return ncclSum;
  case Reduction::Max:
    return ncclMax;
  case Reduction::Min:
    return ncclMin;
  }
  return ncclSum;
}

std::string signatureOf(const CollectiveSpec &spec) {
  static constexpr const char *kReductions[] = {"sum", "max", "min"};
  std::string text = nameOf(spec.kind);
  if (spec.kind == CollectiveKind::AllReduce || spec.kind == CollectiveKind::ReduceScatter)
    text += std::string(" (") + kReductions[static_cast<size_t>(spec.reduction)] + ")";
  if (spec.dim >= 0)
    text += " along " + std::to_string(spec.dim);
  if (spec.concatDim >= 0)
    text += " and " + std::to_string(spec.concatDim);
  text += std::string(" of ") + rt::nameOf(spec.dtype);
  for (const Dims &shape : spec.shapes)
    text += " " + shapeText(shape);
  for (int64_t source : spec.sources)
    text += " from " + std::to_string(source);
  return text;
}

/// One operand, and where its parts lie in the queue's room.
struct Operand {
  Dims shape;            ///< of the source
  uint64_t bytes;        ///< of the source
  uint64_t packedAt = 0; ///< offset
  bool isPacked = false; ///< else NCCL takes it where it lies
};

class CollectiveOperation : public Operation {
public:
  CollectiveOperation(CudaQueue &queue, const CollectiveSpec &spec, int rank)
      : queue(queue), spec(spec), size(static_cast<int>(spec.ranks.size())),
        position(static_cast<int>(std::ranges::find(spec.ranks, rank) - spec.ranks.begin())),
        elementBytes(sizeOf(spec.dtype)) {
    for (const Dims &shape : spec.shapes) {
      Operand operand{shape, static_cast<uint64_t>(product(shape) * elementBytes)};
      uint64_t room = roomOf(operand);
      operand.isPacked = room > 0;
      operand.packedAt = packedBytes;
      constexpr uint64_t kAlignment = 256;
      packedBytes += (room + kAlignment - 1) / kAlignment * kAlignment;
      operands.push_back(std::move(operand));
    }
  }

  Status prepare(const std::string &name);
  Status issue(std::span<const Address> addresses) override {
    return queue.note(perform(addresses));
  }

private:
  /// Bytes that an operand needs for packing. Parts along the first dimension that is larger
  /// than 1 lie one after another as they are.
  uint64_t roomOf(const Operand &operand) const {
    bool isInner = spec.dim >= 0 && rowsOf(operand.shape, spec.dim, elementBytes).count > 1;
    switch (spec.kind) {
    case CollectiveKind::AllGather:
      return isInner ? operand.bytes * static_cast<uint64_t>(size) : 0;
    case CollectiveKind::ReduceScatter:
      return isInner ? operand.bytes : 0;
    case CollectiveKind::AllToAll:
      return operand.bytes * 2;
    case CollectiveKind::Permute:
      return operand.bytes;
    default:
      return 0;
    }
  }

  /// Whom the rank exchanges messages with, where the collective isn't one of NCCL's.
  Peers peers() const;
  Status perform(std::span<const Address> addresses);
  /// Before, within and after NCCL's calls, for one operand.
  Status pack(const Operand &operand, Address source, Address target);
  Status exchange(const Operand &operand, Address source, Address target);
  Status unpack(const Operand &operand, Address source, Address target);

  Status slice(const Operand &operand, Address source, Address target);
  Status packParts(const Operand &operand, int dim, Address source);
  Status unpackParts(const Dims &part, int dim, Address packed, Address target);
  Status exchangeParts(const Operand &operand);
  Status permute(const Operand &operand, Address source, Address target);
  Status send(Address source, uint64_t bytes, int to) {
    return DTC_CUDA_CALL(*nccl, ncclSend, source, bytes, ncclUint8, to, group->handle(),
                         queue.stream);
  }
  Status receive(Address target, uint64_t bytes, int from) {
    return DTC_CUDA_CALL(*nccl, ncclRecv, target, bytes, ncclUint8, from, group->handle(),
                         queue.stream);
  }

  Status copyBytes(Address target, Address source, uint64_t bytes) {
    return copyRows(queue, target, bytes, source, bytes, {1, bytes});
  }
  Address roomFor(const Operand &operand) const { return queue.packed() + operand.packedAt; }
  /// This rank's part of what lies in parts from `start` on. What NCCL gathers or scatters in
  /// place lies there, while ours lies at the start.
  Address ownPart(Address start, uint64_t partBytes) const {
    return start + static_cast<uint64_t>(position) * partBytes;
  }

  CudaQueue &queue;
  CollectiveSpec spec;
  int size, position;
  int64_t elementBytes;
  std::vector<Operand> operands;
  uint64_t packedBytes = 0;
  ncclDataType_t type = ncclUint8; ///< of what is reduced
  const Nccl *nccl = nullptr;
  NcclGroup *group = nullptr; ///< null where this rank is alone, or nothing is exchanged
  std::shared_ptr<const ExchangeCall> call;
};

Status CollectiveOperation::prepare(const std::string &name) {
  if (spec.kind == CollectiveKind::AllReduce || spec.kind == CollectiveKind::ReduceScatter) {
    Result<ncclDataType_t> reduced = reducedType(spec.dtype);
    if (!reduced)
      return reduced.status();
    type = *reduced;
  }
  if (size == 1 || spec.kind == CollectiveKind::Slice)
    return Status::ok();
  call = std::make_shared<ExchangeCall>(
      ExchangeCall{nameOf(spec.kind), name, signatureOf(spec), false});
  const std::vector<int> &ranks = spec.commonOrder.empty() ? spec.ranks : spec.commonOrder;
  Result<NcclGroup *> joined = queue.progress.group({"queue " + queue.name, ranks}, *call, peers());
  if (!joined)
    return joined.status();
  group = *joined;
  nccl = &group->calls();
  return packedBytes > 0 ? queue.reservePacked(packedBytes) : Status::ok();
}

Peers CollectiveOperation::peers() const {
  Peers peers;
  for (int i = 0; i < size; ++i) {
    const bool toAll = spec.kind == CollectiveKind::AllToAll;
    if (toAll || (spec.kind == CollectiveKind::Permute && spec.sources[i] == position))
      peers.to.insert(i);
    if (toAll || (spec.kind == CollectiveKind::Permute && spec.sources[position] == i))
      peers.from.insert(i);
  }
  return peers;
}

Status CollectiveOperation::perform(std::span<const Address> addresses) {
  auto forEach = [&](auto &&step) {
    for (size_t i = 0; i < operands.size(); ++i)
      if (Status status = step(operands[i], addresses[2 * i], addresses[2 * i + 1]); !status.isOk())
        return status;
    return Status::ok();
  };
  if (spec.kind == CollectiveKind::Slice)
    return forEach([&](auto &...operand) { return slice(operand...); });
  if (!group) // alone: the result is what the rank has
    return forEach([&](const Operand &operand, Address source, Address target) {
      return copyBytes(target, source, operand.bytes);
    });
  DTC_CUDA_TRY(forEach([&](auto &...operand) { return pack(operand...); }));
  DTC_CUDA_TRY(group->perform(call, queue.stream, [&] {
    return forEach([&](auto &...operand) { return exchange(operand...); });
  }));
  return forEach([&](auto &...operand) { return unpack(operand...); });
}

Status CollectiveOperation::pack(const Operand &operand, Address source, Address target) {
  switch (spec.kind) {
  case CollectiveKind::AllGather:
    if (operand.isPacked || source != target)
      return Status::ok();
    return copyBytes(ownPart(target, operand.bytes), source, operand.bytes);
  case CollectiveKind::ReduceScatter:
    return operand.isPacked ? packParts(operand, spec.dim, source) : Status::ok();
  case CollectiveKind::AllToAll:
    return packParts(operand, spec.dim, source);
  case CollectiveKind::Permute: // what arrives may take the place of what is sent
    return copyBytes(roomFor(operand), source, operand.bytes);
  default:
    return Status::ok();
  }
}

Status CollectiveOperation::exchange(const Operand &operand, Address source, Address target) {
  bool inPlace = source == target;
  size_t elements = operand.bytes / static_cast<uint64_t>(elementBytes);
  auto ranks = static_cast<uint64_t>(size);
  switch (spec.kind) {
  case CollectiveKind::AllReduce:
    return DTC_CUDA_CALL(*nccl, ncclAllReduce, source, target, elements, type,
                         reductionOf(spec.reduction), group->handle(), queue.stream);
  case CollectiveKind::AllGather: {
    Address gathered = operand.isPacked ? roomFor(operand) : target;
    Address part = inPlace && !operand.isPacked ? ownPart(target, operand.bytes) : source;
    return DTC_CUDA_CALL(*nccl, ncclAllGather, part, gathered, operand.bytes, ncclUint8,
                         group->handle(), queue.stream);
  }
  case CollectiveKind::ReduceScatter: {
    Address parts = operand.isPacked ? roomFor(operand) : source;
    Address own = inPlace && !operand.isPacked ? ownPart(source, operand.bytes / ranks) : target;
    return DTC_CUDA_CALL(*nccl, ncclReduceScatter, parts, own, elements / ranks, type,
                         reductionOf(spec.reduction), group->handle(), queue.stream);
  }
  case CollectiveKind::AllToAll:
    return exchangeParts(operand);
  case CollectiveKind::Permute:
    return permute(operand, roomFor(operand), target);
  case CollectiveKind::Slice:
    break;
  }
  return Status::ok();
}

Status CollectiveOperation::unpack(const Operand &operand, Address source, Address target) {
  uint64_t partBytes = operand.bytes / static_cast<uint64_t>(size);
  switch (spec.kind) {
  case CollectiveKind::AllGather:
    return operand.isPacked ? unpackParts(operand.shape, spec.dim, roomFor(operand), target)
                            : Status::ok();
  case CollectiveKind::ReduceScatter:
    if (operand.isPacked || source != target)
      return Status::ok();
    return copyBytes(target, ownPart(source, partBytes), partBytes);
  case CollectiveKind::AllToAll: {
    Dims part = operand.shape;
    part[spec.dim] /= size;
    return unpackParts(part, spec.concatDim, roomFor(operand) + operand.bytes, target);
  }
  default:
    return Status::ok();
  }
}

/// The parts along `dim`, one after another, into the queue's room.
Status CollectiveOperation::packParts(const Operand &operand, int dim, Address source) {
  Rows rows = rowsOf(operand.shape, dim, elementBytes);
  uint64_t pitch = rows.bytes, partBytes = operand.bytes / static_cast<uint64_t>(size);
  rows.bytes /= static_cast<uint64_t>(size);
  for (int i = 0; i < size; ++i)
    DTC_CUDA_TRY(copyRows(queue, roomFor(operand) + i * partBytes, rows.bytes,
                          source + i * rows.bytes, pitch, rows));
  return Status::ok();
}

/// Parts of one shape that lie one after another, joined along `dim`.
Status CollectiveOperation::unpackParts(const Dims &part, int dim, Address packed, Address target) {
  Rows rows = rowsOf(part, dim, elementBytes);
  uint64_t pitch = rows.bytes * static_cast<uint64_t>(size);
  for (int i = 0; i < size; ++i)
    DTC_CUDA_TRY(copyRows(queue, target + i * rows.bytes, pitch,
                          packed + i * rows.count * rows.bytes, rows.bytes, rows));
  return Status::ok();
}

/// Part i goes to position i, and what position i has for this rank takes place i.
Status CollectiveOperation::exchangeParts(const Operand &operand) {
  uint64_t bytes = operand.bytes / static_cast<uint64_t>(size);
  Address from = roomFor(operand), to = from + operand.bytes;
  for (int i = 0; i < size; ++i) {
    DTC_CUDA_TRY(send(from + i * bytes, bytes, i));
    DTC_CUDA_TRY(receive(to + i * bytes, bytes, i));
  }
  return Status::ok();
}

Status CollectiveOperation::permute(const Operand &operand, Address source, Address target) {
  for (int i = 0; i < size; ++i)
    if (spec.sources[i] == position)
      DTC_CUDA_TRY(send(source, operand.bytes, i));
  return receive(target, operand.bytes, static_cast<int>(spec.sources[position]));
}

Status CollectiveOperation::slice(const Operand &operand, Address source, Address target) {
  Rows rows = rowsOf(operand.shape, spec.dim, elementBytes);
  uint64_t pitch = rows.bytes;
  rows.bytes /= static_cast<uint64_t>(size);
  return copyRows(queue, target, rows.bytes, source + position * rows.bytes, pitch, rows);
}

/// Messages of one direction have a communicator of their own. A communicator does one call at a
/// time, and a rank may receive before it sends.
class MessageOperation : public Operation {
public:
  MessageOperation(CudaQueue &queue, const MessageSpec &spec, NcclGroup &group,
                   std::shared_ptr<const ExchangeCall> call)
      : queue(queue), group(group), call(std::move(call)), receives(spec.receives),
        bytes(spec.bytes) {}

  Status issue(std::span<const Address> addresses) override {
    return group.perform(call, queue.stream, [&] {
      for (size_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] > 0)
          DTC_CUDA_TRY(exchange(addresses[i], bytes[i]));
      return Status::ok();
    });
  }

private:
  Status exchange(Address buffer, uint64_t count) {
    const Nccl &nccl = group.calls();
    if (receives)
      return DTC_CUDA_CALL(nccl, ncclRecv, buffer, count, ncclUint8, /*peer=*/0, group.handle(),
                           queue.stream);
    return DTC_CUDA_CALL(nccl, ncclSend, buffer, count, ncclUint8, /*peer=*/1, group.handle(),
                         queue.stream);
  }

  CudaQueue &queue;
  NcclGroup &group;
  std::shared_ptr<const ExchangeCall> call;
  bool receives;
  std::vector<uint64_t> bytes;
};

std::string sizesText(const std::vector<uint64_t> &sizes) {
  std::string text;
  for (uint64_t bytes : sizes)
    text += (text.empty() ? "" : " + ") + std::to_string(bytes);
  return (text.empty() ? "no" : text) + " bytes";
}

} // namespace

MadeOperation makeCollective(CudaQueue &queue, const CollectiveSpec &spec, int rank,
                             const std::string &name) {
  auto operation = std::make_unique<CollectiveOperation>(queue, spec, rank);
  DTC_CUDA_TRY(operation->prepare(name));
  return std::unique_ptr<Operation>(std::move(operation));
}

MadeOperation makeMessage(CudaQueue &queue, const MessageSpec &spec, int rank,
                          const std::string &name) {
  auto call = std::make_shared<ExchangeCall>(ExchangeCall{
      spec.receives ? "receive" : "send", name, sizesText(spec.bytes), /*isMessage=*/true});
  std::vector<int> ends =
      spec.receives ? std::vector{spec.peer, rank} : std::vector{rank, spec.peer};
  Result<NcclGroup *> group =
      queue.progress.group({"channel " + std::to_string(spec.channel), ends}, *call,
                           spec.receives ? Peers{{}, {0}} : Peers{{1}, {}});
  if (!group)
    return group.status();
  return made<MessageOperation>(queue, spec, **group, std::move(call));
}

} // namespace dtc::rt::cuda
