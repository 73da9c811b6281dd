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

void add(std::vector<BlockGathers> &passes, Operation *gather, Attribute block) {
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

/// Whether an op gathers a parameter, or is the barrier of its part. What is computed again reads
/// gathered parameters behind barriers, too.
bool bringsParameter(Operation *op) {
  return isOfStorage(op) ||
         (isa<graph::BarrierOp>(op) && llvm::all_of(op->getUsers(), isOfStorage));
}

/// The op before which a block's first parameters are gathered, and which stays there.
Operation *beginOf(const BlockGathers &pass) {
  Operation *op = pass.calls.front().front();
  while (bringsParameter(op))
    op = op->getNextNode();
  return op;
}

Attribute blockOf(Operation *gather) { return gather->getAttr(DistDialect::kBlock); }

/// Whether a gather of the backward pass is that of a tied weight, which another block than its own
/// reads first. With its block, all of that would be gathered as early.
bool isForOtherBlock(ArrayRef<Operation *> gathers, size_t index) {
  auto isBackward = [&](size_t i) { return barrierOf(gathers[i]) != nullptr; };
  if (index + 1 == gathers.size() || !isBackward(index) || !isBackward(index + 1) ||
      blockOf(gathers[index + 1]) == blockOf(gathers[index]))
    return false;
  bool isAmongItsOwn =
      index > 0 && isBackward(index - 1) && blockOf(gathers[index - 1]) == blockOf(gathers[index]);
  return !isAmongItsOwn && llvm::any_of(gathers.drop_front(index + 2), [&](Operation *later) {
    return blockOf(later) == blockOf(gathers[index]);
  });
}

/// What each pass of each block gathers, in the order of their first uses.
std::vector<BlockGathers> gathersByPass(func::FuncOp func) {
  std::vector<Operation *> gathers;
  for (auto gather : func.getBody().front().getOps<AllGatherOp>())
    if (isOfStorage(gather))
      gathers.push_back(gather);
  std::vector<BlockGathers> passes;
  for (size_t i = 0; i < gathers.size(); ++i)
    add(passes, gathers[i], blockOf(gathers[isForOtherBlock(gathers, i) ? i + 1 : i]));
  return passes;
}

/// Where what the backward pass begins with is gathered: with the end of the forward pass, which
/// may read the same, it would be there twice.
Operation *turnBefore(Operation *end) {
  Operation *turn = end;
  for (Operation *op = end; op; op = op->getPrevNode())
    if (op->hasAttr(graph::GraphDialect::kBackward) && !bringsParameter(op))
      turn = op;
  return turn;
}

/// The op before which the parameters of a pass are gathered.
Operation *startOf(ArrayRef<BlockGathers> passes, ArrayRef<Operation *> begins, size_t pass) {
  if (pass == 0)
    return begins[0];
  bool turns = !passes[pass - 1].isBackward && passes[pass].isBackward;
  return turns ? turnBefore(begins[pass]) : begins[pass - 1];
}

} // namespace

void gatherBlocksAhead(func::FuncOp func) {
  std::vector<BlockGathers> passes = gathersByPass(func);
  SmallVector<Operation *> begins = llvm::map_to_vector(passes, beginOf);
  for (size_t i = 0; i < passes.size(); ++i) {
    OpBuilder builder(startOf(passes, begins, i));
    for (ArrayRef<Operation *> members : passes[i].calls) {
      for (Operation *gather : members)
        if (Operation *barrier = barrierOf(gather))
          barrier->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
      mergeCalls(builder, members);
    }
  }
}

} // namespace dtc::partition
