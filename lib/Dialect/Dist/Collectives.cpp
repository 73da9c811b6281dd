// Verifiers of the collectives.
#include "Axes.h"
#include "Verify.h"

#include "dtc/Dialect/Dist/Groups.h"
#include "dtc/Dialect/Dist/StageOps.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::dist;

// All collectives have these attributes (Dist_GroupOp).

AxesAttr dist::axesOf(Operation *op) { return op->getAttrOfType<AxesAttr>("axes"); }

FlatSymbolRefAttr dist::meshOf(Operation *op) {
  return op->getAttrOfType<FlatSymbolRefAttr>("mesh");
}

/// The mesh that an op names, or null with an error.
static MeshOp findMesh(Operation *op, FlatSymbolRefAttr name, SymbolTableCollection &tables) {
  auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(op, name);
  if (!mesh)
    op->emitOpError("mesh is not declared: ") << name;
  return mesh;
}

/// The number of ranks in a group, after checking the axes.
static FailureOr<int64_t> groupSize(Operation *op, FlatSymbolRefAttr meshName, AxesAttr axes,
                                    SymbolTableCollection &tables) {
  MeshOp meshOp = findMesh(op, meshName, tables);
  if (!meshOp)
    return failure();
  sharding::Mesh mesh = toMesh(meshOp);
  sharding::AxisList list;
  for (StringAttr name : axes.getNames()) {
    sharding::AxisId axis = mesh.find(name.str());
    if (axis < 0)
      return op->emitOpError("axis is not in the mesh: ") << name.getValue();
    if (llvm::is_contained(list, axis))
      return op->emitOpError("axis is used twice: ") << name.getValue();
    list.push_back(axis);
  }
  return mesh.size(list);
}

static LogicalResult checkDim(Operation *op, Value value, int64_t dim) {
  if (dim >= 0 && dim < static_cast<int64_t>(graph::shapeOf(value).size()))
    return success();
  return op->emitOpError("has no dimension: ") << dim;
}

/// The type of result `i` must be that of operand `i` with `shape`.
static LogicalResult checkResult(Operation *op, ArrayRef<int64_t> shape, unsigned i = 0) {
  auto input = cast<RankedTensorType>(op->getOperand(i).getType());
  auto expected = RankedTensorType::get(shape, input.getElementType());
  if (op->getResult(i).getType() == expected)
    return success();
  return op->emitOpError("result must be ") << expected << ", got: " << op->getResult(i).getType();
}

static LogicalResult checkDivides(Operation *op, int64_t size, int64_t parts) {
  if (size % parts == 0)
    return success();
  return op->emitOpError("dimension of size ") << size << " is not divisible by: " << parts;
}

static LogicalResult checkReduceKind(Operation *op, graph::ReduceKind kind) {
  if (kind != graph::ReduceKind::Prod)
    return success();
  return op->emitOpError("cannot reduce by: ") << graph::stringifyReduceKind(kind);
}

LogicalResult dist::checkOneElementType(Operation *op, ValueRange operands) {
  if (operands.empty())
    return op->emitOpError("needs an operand");
  Type element = getElementTypeOrSelf(operands.front());
  for (Value operand : operands)
    if (getElementTypeOrSelf(operand) != element)
      return op->emitOpError("operands must have one element type, got: ") << operand.getType();
  return success();
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(checkOneElementType(*this, getInputs())))
    return failure();
  if (failed(checkReduceKind(*this, getKind())))
    return failure();
  return groupSize(*this, getMeshAttr(), getAxes(), tables);
}

/// A bucket: operands of one element type, and a result for each.
static LogicalResult checkBucket(Operation *op) {
  if (failed(checkOneElementType(op, op->getOperands())))
    return failure();
  if (op->getNumResults() == op->getNumOperands())
    return success();
  return op->emitOpError("needs a result for each of ")
         << op->getNumOperands() << " operands, has: " << op->getNumResults();
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> ranks = groupSize(*this, getMeshAttr(), getAxes(), tables);
  if (failed(ranks) || failed(checkBucket(*this)))
    return failure();
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (failed(checkDim(*this, input, getDim())))
      return failure();
    SmallVector<int64_t> shape(graph::shapeOf(input));
    shape[getDim()] *= *ranks;
    if (failed(checkResult(*this, shape, i)))
      return failure();
  }
  return success();
}

/// reduce_scatter and slice: `dim` of operand `i` is cut into one part a rank.
static LogicalResult verifyCut(Operation *op, int64_t dim, const FailureOr<int64_t> &ranks,
                               unsigned i = 0) {
  Value input = op->getOperand(i);
  if (failed(ranks) || failed(checkDim(op, input, dim)))
    return failure();
  SmallVector<int64_t> shape(graph::shapeOf(input));
  if (failed(checkDivides(op, shape[dim], *ranks)))
    return failure();
  shape[dim] /= *ranks;
  return checkResult(op, shape, i);
}

LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(checkBucket(*this)) || failed(checkReduceKind(*this, getKind())))
    return failure();
  FailureOr<int64_t> ranks = groupSize(*this, getMeshAttr(), getAxes(), tables);
  for (unsigned i = 0; i < getInputs().size(); ++i)
    if (failed(verifyCut(*this, getDim(), ranks, i)))
      return failure();
  return success();
}

LogicalResult SliceOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyCut(*this, getDim(), groupSize(*this, getMeshAttr(), getAxes(), tables));
}

namespace {

/// Along a dimension that repeats, a part of a broadcast is the same tensor repeated less. Along
/// another one it is a part of its operand, repeated.
struct SliceOfBroadcast : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp slice, PatternRewriter &rewriter) const override {
    auto broadcast = slice.getInput().getDefiningOp<graph::BroadcastOp>();
    if (!broadcast)
      return failure();
    Value input = broadcast.getInput();
    ArrayRef<int64_t> dims = broadcast.getDims();
    if (auto it = llvm::find(dims, static_cast<int64_t>(slice.getDim())); it != dims.end()) {
      int64_t dim = it - dims.begin();
      auto type = cast<RankedTensorType>(input.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[dim] = graph::shapeOf(slice.getResult())[slice.getDim()];
      input = SliceOp::create(rewriter, slice.getLoc(), type.clone(shape), input, slice.getMesh(),
                              slice.getAxes(), dim);
    }
    auto part =
        rewriter.replaceOpWithNewOp<graph::BroadcastOp>(slice, slice.getType(), input, dims);
    part->setDiscardableAttrs(llvm::to_vector(broadcast->getDiscardableAttrs()));
    return success();
  }
};

/// True for arithmetic on one tensor that is a broadcast further up.
bool isBroadcast(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && graph::isElementwise(op) && op->getNumOperands() == 1)
    op = op->getOperand(0).getDefiningOp();
  return isa_and_present<graph::BroadcastOp>(op);
}

/// Brings the slice in front of arithmetic, to the broadcast that is behind it.
struct SliceOfArithmetic : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp slice, PatternRewriter &rewriter) const override {
    Operation *op = slice.getInput().getDefiningOp();
    if (!op || isa<graph::BroadcastOp>(op) || !isBroadcast(slice.getInput()))
      return failure();
    Value input = op->getOperand(0);
    auto type = cast<RankedTensorType>(slice.getType()).clone(getElementTypeOrSelf(input));
    Value part = SliceOp::create(rewriter, slice.getLoc(), type, input, slice.getMesh(),
                                 slice.getAxes(), slice.getDim());
    Operation *again = rewriter.clone(*op);
    again->setOperand(0, part);
    again->getResult(0).setType(slice.getType());
    rewriter.replaceOp(slice, again);
    return success();
  }
};

} // namespace

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SliceOfBroadcast, SliceOfArithmetic>(context);
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> ranks = groupSize(*this, getMeshAttr(), getAxes(), tables);
  if (failed(ranks) || failed(checkDim(*this, getInput(), getSplitDim())) ||
      failed(checkDim(*this, getInput(), getConcatDim())))
    return failure();
  if (getSplitDim() == getConcatDim())
    return emitOpError("cannot split and join the same dimension: ") << getSplitDim();
  SmallVector<int64_t> shape(graph::shapeOf(getInput()));
  if (failed(checkDivides(*this, shape[getSplitDim()], *ranks)))
    return failure();
  shape[getSplitDim()] /= *ranks;
  shape[getConcatDim()] *= *ranks;
  return checkResult(*this, shape);
}

LogicalResult PermuteOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> ranks = groupSize(*this, getMeshAttr(), getAxes(), tables);
  if (failed(ranks))
    return failure();
  if (static_cast<int64_t>(getSources().size()) != *ranks)
    return emitOpError("needs a source for each of ")
           << *ranks << " ranks, got: " << getSources().size();
  std::vector<bool> sends(*ranks, false);
  for (int64_t source : getSources()) {
    if (source < 0 || source >= *ranks || sends[source])
      return emitOpError("sources must be a permutation, got: ") << source;
    sends[source] = true;
  }
  return checkResult(*this, graph::shapeOf(getInput()));
}

LogicalResult AxisIndexOp::verifySymbolUses(SymbolTableCollection &tables) {
  return groupSize(*this, getMeshAttr(), getAxes(), tables);
}

#define GET_OP_CLASSES
#include "dtc/Dialect/Dist/DistOps.cpp.inc"

void DistDialect::registerOperations() {
  addOperations<
#define GET_OP_LIST
#include "dtc/Dialect/Dist/DistOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dtc/Dialect/Dist/StageOps.cpp.inc"
      >();
}
