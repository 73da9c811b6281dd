// Registration and verifiers of the `exec` dialect.
#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Dialect/Exec/GroupedMatmulOp.h"
#include "dtc/Dialect/Exec/Joins.h"
#include "dtc/Dialect/Graph/ConvWindow.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace dtc::exec;

#include "dtc/Dialect/Exec/ExecDialect.cpp.inc"
#include "dtc/Dialect/Exec/ExecEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dtc/Dialect/Exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dtc/Dialect/Exec/ExecOps.cpp.inc"
      >();
  addOperations<GroupedMatmulOp>();
}

SmallVector<dtc::graph::ConcatOp> dtc::exec::joinsOf(KernelOp kernel) {
  const size_t pieces = kernel.getPieces();
  SmallVector<dtc::graph::ConcatOp> joins;
  for (Value value : kernel.getYield().getValues()) {
    auto concat = value.getDefiningOp<dtc::graph::ConcatOp>();
    if (pieces < 2 || !concat || concat.getInputs().size() != pieces)
      return {};
    joins.push_back(concat);
  }
  return joins;
}

YieldOp KernelOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

LogicalResult KernelOp::verify() {
  Block &body = getBody().front();
  if (body.empty() || !isa<YieldOp>(body.back()))
    return emitOpError("body must end in exec.yield");
  if (int64_t extent = getExtentAttr().getInt(); extent < 0)
    return emitOpError("extent is negative: ") << extent;
  if (int64_t scratch = getScratchBytesAttr().getInt(); scratch < 0)
    return emitOpError("scratch is negative: ") << scratch;
  if (auto replaces = getReplaces()) {
    if (replaces->size() != getYield()->getNumOperands())
      return emitOpError("replaces needs an entry for each of ")
             << getYield()->getNumOperands() << " results, got: " << replaces->size();
    for (int64_t operand : *replaces)
      if (operand < -1 || operand >= static_cast<int64_t>(body.getNumArguments()))
        return emitOpError("replaces no operand: ") << operand;
  }
  const int64_t pieces = getPieces();
  if (pieces < 1)
    return emitOpError("body isn't made of so many pieces: ") << pieces;
  const size_t joins = joinsOf(*this).size();
  if ((joins == 0 && getYield()->getNumOperands() % pieces != 0) ||
      (body.getOperations().size() - 1 - joins) % pieces != 0)
    return emitOpError("body isn't made of so many pieces: ") << pieces;
  for (Type type : body.getArgumentTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return emitOpError("operands must be tensors of static shape, got: ") << type;
  }
  for (Operation &op : body)
    if (!isMemoryEffectFree(&op))
      return emitOpError("body may not have side effects, got: ") << op.getName();
  return success();
}

LogicalResult ConvWeightGradOp::verify() {
  return graph::verifyConvWeightGrad(*this, graph::ConvWindow::of(*this), getGroups());
}

/// A flat kernel runs on any shape, and on any number of elements where it has no geometry.
static bool matches(Type given, Type declared, KernelOp kernel) {
  if (!kernel.getFlat())
    return given == declared;
  auto a = cast<ShapedType>(given), b = cast<ShapedType>(declared);
  return a.getElementType() == b.getElementType() &&
         (!kernel.getGeometry() || a.getNumElements() == b.getNumElements());
}

static LogicalResult verifyTypes(LaunchOp launch, TypeRange given, TypeRange declared,
                                 KernelOp kernel, StringRef what) {
  if (given.size() != declared.size())
    return launch.emitOpError("kernel ")
           << launch.getKernel() << " has " << declared.size() << " " << what
           << ", the launch: " << given.size();
  for (auto [a, b] : llvm::zip_equal(given, declared))
    if (!matches(a, b, kernel))
      return launch.emitOpError("kernel ")
             << launch.getKernel() << " has " << what << " of type " << b << ", the launch: " << a;
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel = tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("kernel is not declared: ") << getKernelAttr();
  // What is compiled for one element reads the first one alone.
  bool anyExtent = kernel.getFlat() && !kernel.getGeometry() && kernel.getExtent() != 1;
  if (anyExtent ? getExtentAttr().getInt() < 0 : getExtent() != kernel.getExtent())
    return emitOpError("kernel ") << getKernel() << " has extent " << kernel.getExtent()
                                  << ", the launch: " << getExtent();
  if (failed(verifyTypes(*this, getInputs().getTypes(), kernel.getBody().getArgumentTypes(), kernel,
                         "operands")) ||
      failed(verifyTypes(*this, getResultTypes(), kernel.getYield().getOperandTypes(), kernel,
                         "results")))
    return failure();
  if (getInPlace().size() != getNumResults())
    return emitOpError("in_place needs an entry for each of ")
           << getNumResults() << " results, got: " << getInPlace().size();
  for (int64_t operand : getInPlace())
    if (operand < -1 || operand >= static_cast<int64_t>(getInputs().size()))
      return emitOpError("in_place names no operand: ") << operand;
  return success();
}
