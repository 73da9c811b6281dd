#include "Precision.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

/// Results that are f32 whatever the operands are.
bool isStatistic(OpResult result) {
  auto precision = dyn_cast<PrecisionOpInterface>(result.getOwner());
  return precision && precision.isStatistic(result.getResultNumber());
}

/// Operands that may be wider than the op's others.
bool mayStayWide(OpOperand &operand) {
  auto precision = dyn_cast<PrecisionOpInterface>(operand.getOwner());
  return precision && precision.mayStayWide(operand.getOperandNumber());
}

class PrecisionConverter {
public:
  PrecisionConverter(ModuleOp module, func::FuncOp func, FloatType target)
      : module(module), func(func), target(target) {}

  LogicalResult convert() {
    if (failed(convertParameters()))
      return failure();
    Block &body = func.getBody().front();
    for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
      if (llvm::any_of(op.getOperands(), [&](Value v) { return converted.contains(v); }))
        if (failed(convertOp(op)))
          return failure();
    SmallVector<Type> results(body.getTerminator()->getOperandTypes());
    func.setType(FunctionType::get(func.getContext(), body.getArgumentTypes(), results));
    return success();
  }

private:
  /// Whether values of an element type become the target's: f32 for a half, f64 for f32.
  bool isReplaced(Type type) const { return target.isF32() ? type.isF64() : type.isF32(); }
  bool isReplaced(Value value) const { return isReplaced(getElementTypeOrSelf(value)); }

  void retype(Value value) {
    value.setType(cast<RankedTensorType>(value.getType()).clone(target));
    converted.insert(value);
  }

  LogicalResult convertParameters() {
    SymbolTable symbols(module);
    for (BlockArgument argument : func.getArguments()) {
      RoleAttr role = getArgRole(func, argument.getArgNumber());
      if (!role || role.getKind() != RoleKind::Parameter)
        continue;
      Type type = getElementTypeOrSelf(argument);
      if (isa<FloatType>(type) && type != target && !isReplaced(type))
        return func.emitError() << type << " parameters can't be trained in " << target << ": "
                                << role.getName();
      if (!isReplaced(type))
        continue;
      retype(argument);
      if (auto parameter = symbols.lookup<ParameterOp>(role.getName()))
        parameter.setTypeAttr(TypeAttr::get(argument.getType()));
    }
    return success();
  }

  LogicalResult convertOp(Operation &op) {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      return convertCast(op);
    if (op.getNumRegions() != 0)
      return op.emitError() << "can't be converted to " << target << ": " << op.getName();
    for (OpOperand &operand : op.getOpOperands())
      if (isReplaced(operand.get()) && (target.isF32() || !mayStayWide(operand)))
        operand.set(rounded(operand.get(), op));
    for (OpResult result : op.getResults()) {
      if (isReplaced(result) && (target.isF32() || !isStatistic(result)))
        retype(result);
      else if (target.isF32() && getElementTypeOrSelf(result).isF32())
        converted.insert(result); // rounding it again was the file's precision
    }
    return success();
  }

  /// A cast of what has become the target's type: it vanishes, but for one to f64.
  LogicalResult convertCast(Operation &op) {
    Type to = getElementTypeOrSelf(op.getResult(0));
    if (to.isF64())
      return success();
    if (to != target && !isReplaced(to))
      return op.emitError() << "can't be trained in " << target << ", it rounds to: " << to;
    op.getResult(0).replaceAllUsesWith(op.getOperand(0));
    op.erase();
    return success();
  }

  /// `value` in the target's type before `op`. Finite constants stay finite.
  Value rounded(Value value, Operation &op) {
    OpBuilder builder(&op);
    DenseFPElementsAttr elements;
    if (matchPattern(value, m_Constant(&elements)) && elements.isSplat()) {
      double number = elements.getSplatValue<APFloat>().convertToDouble();
      double largest = APFloat::getLargest(target.getFloatSemantics()).convertToDouble();
      if (std::isfinite(number))
        number = std::clamp(number, -largest, largest);
      TensorBuilder b(builder, value.getLoc());
      return b.constant(elements.getType().clone(target), number);
    }
    TensorBuilder b(builder, op.getLoc());
    return b.convert(value, target);
  }

  ModuleOp module;
  func::FuncOp func;
  FloatType target;
  llvm::DenseSet<Value> converted; ///< what has the target's type instead of its own
};

} // namespace

static bool hasDoubleParameters(func::FuncOp func) {
  return llvm::any_of(func.getArguments(), [&](BlockArgument argument) {
    RoleAttr role = getArgRole(func, argument.getArgNumber());
    Type type = getElementTypeOrSelf(argument);
    return role && role.getKind() == RoleKind::Parameter && type.isF64();
  });
}

LogicalResult convertPrecision(ModuleOp module, func::FuncOp func, FloatType target) {
  auto f32 = Float32Type::get(func.getContext());
  if (!target.isF32() && hasDoubleParameters(func) &&
      failed(PrecisionConverter(module, func, f32).convert()))
    return failure();
  return PrecisionConverter(module, func, target).convert();
}

} // namespace dtc::training
