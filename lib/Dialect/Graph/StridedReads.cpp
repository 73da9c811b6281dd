#include "dtc/Dialect/Graph/StridedReads.h"

#include "dtc/Dialect/Graph/Graph.h"

using namespace mlir;

namespace dtc::graph {

using Reads = std::vector<sharding::DimRead>;

static Reads readsOf(TransposeOp op) {
  Reads reads;
  for (int64_t from : op.getPerm())
    reads.push_back({.dim = static_cast<int>(from)});
  return reads;
}

/// The step of a single element may be anything.
static Reads readsOf(SliceOp op) {
  Reads reads;
  for (auto [dim, size] : llvm::enumerate(shapeOf(op.getResult())))
    reads.push_back({.dim = static_cast<int>(dim),
                     .start = op.getOffsets()[dim],
                     .step = size > 1 ? op.getStrides()[dim] : 1});
  return reads;
}

static Reads readsOf(BroadcastOp op) {
  Reads reads(shapeOf(op.getResult()).size(), {.dim = -1, .start = 0, .step = 0});
  for (auto [from, dim] : llvm::enumerate(op.getDims()))
    reads[dim] = {.dim = static_cast<int>(from)};
  return reads;
}

Reads stridedReads(Operation *op) {
  return TypeSwitch<Operation *, Reads>(op)
      .Case<TransposeOp, SliceOp, BroadcastOp>([](auto read) { return readsOf(read); })
      .Default([](Operation *) { return Reads(); });
}

} // namespace dtc::graph
