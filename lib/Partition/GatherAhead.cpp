// Parameters that ZeRO divides, gathered block by block ahead of their use.
#include "Collectives.h"

using namespace mlir;
using namespace dtc::dist;

namespace dtc::partition {

namespace {

/// What one pass of a block gathers.
struct BlockGathers {
  Attribute block;
  bool isBackward;
  SmallVector<SmallVector<Operation *>> calls; ///< each of one element type and group
};

/// Those of the backward pass read a part behind a barrier.
graph::BarrierOp barrierOf(Operation *gather) {
  return gather->getOperand(0).getDefiningOp<graph::BarrierOp>();
}

void add(std::vector<BlockGathers> &passes, Operation *gather) {
  Attribute block = gather->getAttr(DistDialect::kBlock);
  bool isBackward = barrierOf(gather) != nullptr;
  auto pass = llvm::find_if(passes, [&](const BlockGathers &known) {
    return known.block == block && known.isBackward == isBackward;
  });
  if (pass == passes.end())
    pass = passes.insert(passes.end(), {block, isBackward, {}});
  auto call = llvm::find_if(pass->calls, [&](ArrayRef<Operation *> members) {
    return callKeyOf(members.front()) == callKeyOf(gather);
  });
  if (call == pass->calls.end())
    call = pass->calls.insert(pass->calls.end(), SmallVector<Operation *>());
  call->push_back(gather);
}

/// The op before which a block's first parameters are gathered, and which stays there.
Operation *beginOf(const BlockGathers &pass) {
  Operation *op = pass.calls.front().front();
  while (isa<graph::BarrierOp>(op) || isOfStorage(op))
    op = op->getNextNode();
  return op;
}

} // namespace

void gatherBlocksAhead(func::FuncOp func) {
  std::vector<BlockGathers> passes; // in the order of their first uses
  for (auto gather : func.getBody().front().getOps<AllGatherOp>())
    if (isOfStorage(gather))
      add(passes, gather);
  SmallVector<Operation *> begins = llvm::map_to_vector(passes, beginOf);
  for (size_t i = 0; i < passes.size(); ++i) {
    OpBuilder builder(begins[i == 0 ? 0 : i - 1]);
    for (ArrayRef<Operation *> members : passes[i].calls) {
      for (Operation *gather : members)
        if (Operation *barrier = barrierOf(gather))
          barrier->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
      mergeCalls(builder, members);
    }
  }
}

} // namespace dtc::partition
