#include "KernelPieces.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

/// Numbers of units are 32 bits wide.
static constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

static int64_t elementsOfPiece(const BodyInfo &info, int64_t piece) {
  return elementsOf(info.body.getArgument(piece * info.ownArguments));
}

/// Units that all pieces have whole ones of. Where one launch does many tensors, units keep the
/// small ones from nothing.
static void planUnits(const BodyInfo &info, KernelPlan &plan) {
  plan.unit = elementsOfAccess(info);
  for (int64_t piece = 0; piece < info.pieces; ++piece)
    while (elementsOfPiece(info, piece) % plan.unit != 0)
      plan.unit /= 2;
  plan.items = elementsOfPiece(info, 0) / plan.unit;
  plan.threads = kPointwiseThreads;
  plan.blocks = 0;
}

void planTotals(const BodyInfo &info, KernelPlan &plan) {
  planUnits(info, plan);
  plan.lanes = plan.threads;
  plan.rounds = partialSum(info.joins.front(), 0)->elements / (plan.unit * plan.threads);
  for (int64_t piece = 0; piece < info.pieces; ++piece) {
    plan.pieces.push_back({plan.blocks, elementsOfPiece(info, piece) / plan.unit});
    plan.blocks += partialSum(info.joins.front(), piece)->parts;
  }
}

void planPieces(const BodyInfo &info, KernelPlan &plan) {
  planUnits(info, plan);
  for (int64_t piece = 0; piece < info.pieces; ++piece) {
    int64_t items = elementsOfPiece(info, piece) / plan.unit;
    plan.pieces.push_back({plan.blocks, items});
    plan.blocks += ceilDivide(items, plan.threads);
  }
}

/// Whether the operands of all pieces, and those that they share, are like the first one's.
static LogicalResult checkOperands(const BodyInfo &info, DenseMap<Value, Value> &first) {
  Operation *kernel = info.body.getParentOp();
  unsigned own = info.ownArguments, shared = own * info.pieces;
  if (own == 0)
    return kernel->emitError("the pieces of a kernel need operands of their own");
  for (unsigned i = 0; i < info.body.getNumArguments(); ++i) {
    Value like = info.body.getArgument(i < shared ? i % own : i);
    first[info.body.getArgument(i)] = like;
    if (i < shared &&
        (elementsOf(info.body.getArgument(i)) != elementsOfPiece(info, i / own) ||
         getElementTypeOrSelf(info.body.getArgument(i)) != getElementTypeOrSelf(like)))
      return kernel->emitError("has an operand unlike that of its first piece: ") << i;
  }
  for (int64_t piece = 0; piece < info.pieces; ++piece)
    if (elementsOfPiece(info, piece) > std::min(kMostElements, elementsOfPiece(info, 0)))
      return kernel->emitError("has a piece that is too large: ") << piece;
  return success();
}

static LogicalResult checkJoins(const BodyInfo &info) {
  Operation *kernel = info.body.getParentOp();
  if (!addsUpFlat(info))
    return kernel->emitError("only sums of arithmetic element by element can be joined");
  int64_t elements = partialSum(info.joins.front(), 0)->elements;
  if (!llvm::isPowerOf2_64(elements) || elements < kAccessBytes / 2 * kPointwiseThreads)
    return kernel->emitError("has parts that threads can't share: ") << elements;
  return success();
}

LogicalResult checkPieces(const BodyInfo &info) {
  Operation *kernel = info.body.getParentOp();
  DenseMap<Value, Value> first; // by a value of another piece: the first one's like it
  if (failed(checkOperands(info, first)))
    return failure();
  auto valueOf = [](Operation *op) {
    auto constant = dyn_cast<arith::ConstantOp>(op);
    auto elements =
        constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    return elements ? elements.getSplatValue<Attribute>() : Attribute(op->getAttrDictionary());
  };
  for (auto [i, op] : llvm::enumerate(info.body.without_terminator())) {
    if (i == info.ops.size() * info.pieces)
      break; // joins
    Operation *like = info.ops[i % info.ops.size()];
    first[op.getResult(0)] = like->getResult(0);
    bool isAlike = op.getName() == like->getName() && valueOf(&op) == valueOf(like) &&
                   op.getNumOperands() == like->getNumOperands();
    for (unsigned operand = 0; isAlike && operand < op.getNumOperands(); ++operand)
      isAlike = first.lookup(op.getOperand(operand)) == like->getOperand(operand);
    if (!isAlike)
      return op.emitError("differs from that of the first piece of its kernel");
  }
  for (graph::ConcatOp join : info.joins)
    for (Value value : join.getInputs())
      if (first.lookup(value) != join.getInputs().front())
        return join.emitError("joins what isn't alike");
  if (!info.joins.empty())
    return checkJoins(info);
  for (auto [i, value] : llvm::enumerate(info.body.getTerminator()->getOperands()))
    if (first.lookup(value) != info.results[i % info.results.size()])
      return kernel->emitError("has a result unlike that of its first piece: ") << i;
  if (!isFlat(info))
    return kernel->emitError("only arithmetic element by element can have pieces");
  return success();
}

} // namespace dtc::cuda
