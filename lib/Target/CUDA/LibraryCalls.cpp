#include "LibraryCalls.h"
#include "BiasBounds.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::cuda {

/// What NVIDIA advises for the largest GPUs.
static constexpr uint64_t kWorkspace = uint64_t(32) << 20;

static bool isHalf(Type type) { return type.isBF16() || type.isF16(); }

static SmallVector<Type, 3> elementTypesOf(Operation *op) {
  return {getElementTypeOrSelf(op->getOperand(0)), getElementTypeOrSelf(op->getOperand(1)),
          getElementTypeOrSelf(op->getResult(0))};
}

/// Operands and results of one type. Those of halves may also have results of fp32.
static bool hasTypes(ArrayRef<Type> types) {
  Type lhs = types[0], rhs = types[1], result = types[2];
  return lhs == rhs && (isHalf(lhs) || lhs.isF32() || lhs.isF64()) &&
         (result == lhs || (isHalf(lhs) && result.isF32()));
}

/// cuDNN pads both ends alike, and has images and volumes; sequences are images of one row.
static LogicalResult checkWindow(Operation *op) {
  rt::fbs::ConvT conv = target::convRecord(op);
  if (conv.strides.empty() || conv.strides.size() > 3)
    return op->emitError("cuDNN has no convolution over so many dimensions: ")
           << conv.strides.size();
  for (auto [low, high] : llvm::zip_equal(conv.pad_low, conv.pad_high))
    if (low != high)
      return op->emitError("cuDNN pads both ends of a convolution alike: ")
             << low << " and " << high;
  return success();
}

LogicalResult checkLibraryCalls(ModuleOp module) {
  SmallVector<std::pair<OperationName, SmallVector<Type, 3>>> known;
  LogicalResult result = success();
  module.walk([&](Operation *op) {
    bool isConv = target::isConv(op);
    if (!isConv && !isa<graph::ContractOp>(op) && !target::isAttention(op))
      return WalkResult::advance();
    if (isConv && failed(checkWindow(op))) {
      result = failure();
      return WalkResult::interrupt();
    }
    SmallVector<Type, 3> types = elementTypesOf(op);
    std::pair key(op->getName(), types);
    if (hasTypes(types) || llvm::is_contained(known, key))
      return WalkResult::advance();
    known.push_back(std::move(key));
    result = op->emitError(isConv ? "cuDNN" : "cuBLASLt")
             << " has no such operation for these element types: " << op->getName().stripDialect()
             << " of " << types[0] << " and " << types[1] << " to " << types[2];
    return WalkResult::advance();
  });
  return result;
}

static bool hasHeadsOfCudnn(Value value) {
  constexpr int64_t kMultiple = 8, kMost = 128;
  int64_t size = graph::shapeOf(value).back();
  return size % kMultiple == 0 && size <= kMost;
}

/// Only what a true GPU had right (docs/GpuResults.md): a number of the operands' type for each
/// head, query and key, the same for all samples. An H100 and an H200 gave wrong gradients with a
/// mask of keys, and no error.
static bool takesBias(Value bias, Value query, Value key) {
  constexpr double kMost = 1e4; // beside which a sum's logarithm is still a number
  ArrayRef<int64_t> shape = graph::shapeOf(bias), q = graph::shapeOf(query);
  const SmallVector<int64_t> scores{q[2], q[1], graph::shapeOf(key)[1]};
  auto broadcast = bias.getDefiningOp<graph::BroadcastOp>();
  const bool isShared = shape[0] == 1 || (broadcast && !llvm::is_contained(broadcast.getDims(), 0));
  return getElementTypeOrSelf(bias) == getElementTypeOrSelf(query) && isShared &&
         shape.drop_front() == ArrayRef(scores) && isCertainlyWithin(bias, kMost);
}

/// What cuDNN's frontend refuses of lengths. Its planner has engines for some of these all the
/// same. The backward pass of one, a bias beside a diagonal that begins within the keys, gave
/// zeros. NVIDIA's release notes (9.18.1) name two more: gradients of one key, and one query below
/// a causal mask whose heads share keys.
static bool hasLengthsOfCudnn(int64_t queries, int64_t keys, bool isCausal, bool hasBias) {
  if (keys == 1 || (queries == 1 && isCausal))
    return false;
  return !isCausal || queries == keys || (queries < keys && !hasBias);
}

template <typename Op> static bool takesAttentionOf(Op op, Value bias) {
  Type type = getElementTypeOrSelf(op.getQuery());
  int64_t queries = graph::shapeOf(op.getQuery())[1], keys = graph::shapeOf(op.getKey())[1];
  return isHalf(type) && hasHeadsOfCudnn(op.getQuery()) && hasHeadsOfCudnn(op.getValue()) &&
         hasLengthsOfCudnn(queries, keys, op.getCausal(), bias != nullptr) &&
         (!bias || (!op.getWindow() && takesBias(bias, op.getQuery(), op.getKey())));
}

bool takesAttention(Operation *op) {
  if (auto forward = dyn_cast<graph::AttentionOp>(op))
    return takesAttentionOf(forward, forward.getBias());
  if (auto part = dyn_cast<graph::AttentionPartGradOp>(op))
    return takesAttentionOf(part, Value());
  auto backward = dyn_cast<graph::AttentionGradOp>(op);
  return backward && takesAttentionOf(backward, backward.getBias());
}

static uint64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

/// The gradients of queries are summed up in fp32, as is a number for each row; engines for older
/// GPUs sum them up once more. Where heads share keys, those of keys and values are made for each
/// head. Queries and keys come in tiles.
static sharding::AttentionWorkspace workspaceOfHeads(int64_t queryHead, int64_t valueHead,
                                                     bool isBackward) {
  constexpr int64_t kTile = 128, kFixed = 1024;
  if (!isBackward)
    return {.fixed = kFixed};
  return {.fixed = kFixed,
          .perQuery = 4 * (2 * queryHead + 1),
          .perSharedKey = 2 * (queryHead + valueHead),
          .tile = kTile};
}

sharding::AttentionWorkspace attentionWorkspace(Operation *op) {
  return workspaceOfHeads(graph::shapeOf(op->getOperand(0))[3],
                          graph::shapeOf(op->getOperand(2))[3], !isa<graph::AttentionOp>(op));
}

/// Queries and keys: samples, lengths, heads and their size.
static uint64_t bytesOf(const sharding::AttentionWorkspace &workspace, ArrayRef<int64_t> query,
                        ArrayRef<int64_t> key) {
  return workspace.bytes(query[0], query[2], key[2], query[1], key[1]);
}

FailureOr<uint64_t> LibraryWorkspace::bytesOf(Operation *op) {
  if (isa<exec::MatmulOp>(op))
    return kWorkspace;
  if (auto call = dyn_cast<exec::AttentionOp>(op)) {
    ArrayRef<int64_t> query = call.placeOf(0).getShape();
    return cuda::bytesOf(
        workspaceOfHeads(query[3], call.placeOf(2).getShape()[3], call.getBackward()), query,
        call.placeOf(1).getShape());
  }
  if (target::isAttention(op))
    return cuda::bytesOf(attentionWorkspace(op), graph::shapeOf(op->getOperand(0)),
                         graph::shapeOf(op->getOperand(1)));
  if (!target::isConv(op))
    return 0;
  return kWorkspace + cuda::bytesOf(op->getOperand(0).getType()) +
         cuda::bytesOf(op->getOperand(1).getType()) + cuda::bytesOf(op->getResult(0).getType());
}

} // namespace dtc::cuda
