// The halves of a file become f32, so that what follows sees one graph however it was exported.
#include "OverflowGuards.h"
#include "Rounding.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Raise/Emit.h"
#include "dtc/Raise/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_WIDENHALVES
#include "dtc/Raise/Passes.h.inc"

static bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

static Type widened(Type type) {
  if (!isHalf(type))
    return type;
  return cast<RankedTensorType>(type).clone(Float32Type::get(type.getContext()));
}

/// The number in f32. The largest number of a type, with which masks hide, becomes that of f32.
static APFloat widened(APFloat number) {
  const bool largest = number.isFinite() && number.isLargest();
  const bool negative = number.isNegative();
  bool lossy;
  (void)number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
  return largest ? APFloat::getLargest(APFloat::IEEEsingle(), negative) : number;
}

namespace {

struct WidenHalves : impl::WidenHalvesBase<WidenHalves> {
  using WidenHalvesBase::WidenHalvesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto func = graph::findFunction(module, graph::kForward);
    rounded.clear();
    // Without parameters the file's types are all there is to go by.
    if (!func || func.isExternal() || module.getOps<graph::ParameterOp>().empty())
      return;
    for (auto parameter : module.getOps<graph::ParameterOp>()) {
      if (isHalf(parameter.getType()))
        rounded.insert(TypeAttr::get(getElementTypeOrSelf(parameter.getType())));
      parameter.setType(cast<RankedTensorType>(widened(parameter.getType())));
    }
    for (BlockArgument argument : func.getArguments())
      argument.setType(widened(argument.getType()));
    WalkResult walked = func.getBody().walk([&](Operation *op) {
      return failed(widenOp(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return signalPassFailure();
    func.setType(FunctionType::get(&getContext(), func.getBody().getArgumentTypes(),
                                   func.getBody().front().getTerminator()->getOperandTypes()));
    if (rounded.contains(TypeAttr::get(Float16Type::get(&getContext()))))
      dropOverflowGuards(func);
    if (!rounded.empty())
      func->setAttr(kRoundedTo, ArrayAttr::get(&getContext(), rounded.getArrayRef()));
  }

private:
  LogicalResult widenOp(Operation *op) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return widenConstant(constant);
    if (isa<arith::BitcastOp>(op) &&
        isHalf(op->getOperand(0).getType()) != isHalf(op->getResult(0).getType()))
      return op->emitError("reads the bits of a half");
    for (OpResult result : op->getResults())
      result.setType(widened(result.getType()));
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      return success();
    // A cast to a half is one to f32 now, from f64 alone; one from a half may be one to f64.
    Value from = op->getOperand(0), to = op->getResult(0);
    if (from.getType() == to.getType()) {
      to.replaceAllUsesWith(from);
      op->erase();
    }
    return success();
  }

  LogicalResult widenConstant(arith::ConstantOp constant) {
    if (!isHalf(constant.getType()))
      return success();
    auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue());
    if (!elements)
      return constant.emitError("is a constant whose elements are not known");
    rounded.insert(TypeAttr::get(elements.getElementType()));
    Type f32 = Float32Type::get(&getContext());
    auto inSingle = [](const APFloat &number) { return widened(number).bitcastToAPInt(); };
    constant.setValueAttr(elements.mapValues(f32, inSingle));
    constant.getResult().setType(cast<RankedTensorType>(widened(constant.getType())));
    return success();
  }

  llvm::SetVector<Attribute> rounded;
};
} // namespace

} // namespace dtc::raise
