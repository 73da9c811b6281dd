#include "Precision.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

bool isF32(Value value) { return getElementTypeOrSelf(value).isF32(); }

/// Results that are f32 whatever the operands are.
bool isStatistic(OpResult result) {
  Operation *op = result.getOwner();
  if (isa<LayerNormOp, RmsNormOp, AttentionOp>(op))
    return result.getResultNumber() > 0;
  return isa<CrossEntropyOp>(op);
}

/// Operands that may be wider than the op's others: rounding a mask's -3.4e38
/// to bf16 would give -inf.
bool mayStayWide(OpOperand &operand) {
  auto attention = dyn_cast<AttentionOp>(operand.getOwner());
  return attention && attention.getBias() && operand.get() == attention.getBias();
}

class BF16Converter {
public:
  BF16Converter(ModuleOp module, func::FuncOp func)
      : module(module), func(func), bf16(BFloat16Type::get(func.getContext())) {}

  LogicalResult convert() {
    if (failed(convertParameters()))
      return failure();
    Block &body = func.getBody().front();
    for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
      if (llvm::any_of(op.getOperands(), [&](Value v) { return low.contains(v); }))
        if (failed(convertOp(op)))
          return failure();
    SmallVector<Type> results(body.getTerminator()->getOperandTypes());
    func.setType(FunctionType::get(func.getContext(), body.getArgumentTypes(), results));
    return success();
  }

private:
  void lower(Value value) {
    value.setType(cast<RankedTensorType>(value.getType()).clone(bf16));
    low.insert(value);
  }

  LogicalResult convertParameters() {
    SymbolTable symbols(module);
    for (BlockArgument argument : func.getArguments()) {
      RoleAttr role = getArgRole(func, argument.getArgNumber());
      if (!role || role.getKind() != RoleKind::Parameter)
        continue;
      if (getElementTypeOrSelf(argument).isF16())
        return func.emitError() << "f16 parameters can't be trained in bf16: " << role.getName();
      if (!isF32(argument))
        continue;
      lower(argument);
      if (auto parameter = symbols.lookup<ParameterOp>(role.getName()))
        parameter.setTypeAttr(TypeAttr::get(argument.getType()));
    }
    return success();
  }

  LogicalResult convertOp(Operation &op) {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      return convertCast(op);
    if (op.getNumRegions() != 0)
      return op.emitError() << "can't be converted to bf16: " << op.getName();
    for (OpOperand &operand : op.getOpOperands())
      if (isF32(operand.get()) && !mayStayWide(operand))
        operand.set(rounded(operand.get(), op));
    for (OpResult result : op.getResults())
      if (isF32(result) && !isStatistic(result))
        lower(result);
    return success();
  }

  /// A cast of what has become bf16: to bf16 it vanishes, to f64 it stays.
  LogicalResult convertCast(Operation &op) {
    Type to = getElementTypeOrSelf(op.getResult(0));
    if (to.isF64())
      return success();
    if (to != bf16)
      return op.emitError() << "can't be trained in bf16, it rounds to: " << to;
    op.getResult(0).replaceAllUsesWith(op.getOperand(0));
    op.erase();
    return success();
  }

  /// `value` in bf16 before `op`. Finite constants stay finite.
  Value rounded(Value value, Operation &op) {
    OpBuilder builder(&op);
    DenseFPElementsAttr elements;
    if (matchPattern(value, m_Constant(&elements)) && elements.isSplat()) {
      double number = elements.getSplatValue<APFloat>().convertToDouble();
      double largest = APFloat::getLargest(APFloat::BFloat()).convertToDouble();
      if (std::isfinite(number))
        number = std::clamp(number, -largest, largest);
      TensorBuilder b(builder, value.getLoc());
      return b.constant(elements.getType().clone(bf16), number);
    }
    TensorBuilder b(builder, op.getLoc());
    return b.convert(value, bf16);
  }

  ModuleOp module;
  func::FuncOp func;
  Type bf16;
  llvm::DenseSet<Value> low; ///< what has become bf16
};

} // namespace

LogicalResult convertToBF16(ModuleOp module, func::FuncOp func) {
  return BF16Converter(module, func).convert();
}

LogicalResult checkF32(ModuleOp module) {
  for (auto parameter : module.getOps<ParameterOp>()) {
    Type type = parameter.getType().getElementType();
    if (parameter.getTrainable() && (type.isBF16() || type.isF16()))
      return parameter.emitError() << "parameter '" << parameter.getSymName()
                                   << "' can't be trained in fp32, its element type is " << type;
  }
  return success();
}

} // namespace dtc::training
