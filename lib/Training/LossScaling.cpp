#include "LossScaling.h"

#include "dtc/Dialect/Graph/StepOps.h"

#include <limits>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static RankedTensorType numberType(MLIRContext *context) {
  return RankedTensorType::get({}, Float32Type::get(context));
}

static RoleAttr bufferRole(MLIRContext *context, StringRef name) {
  return roleOf(context, RoleKind::Buffer, name);
}

static Value addBuffer(PhaseFunction &function, StringRef name) {
  MLIRContext *context = function.func().getContext();
  return function.argument(numberType(context), bufferRole(context, name));
}

LogicalResult declareLossScale(ModuleOp module, const LossScaleOptions &options) {
  SymbolTable symbols(module);
  OpBuilder builder(module.getContext());
  auto parameters = module.getOps<ParameterOp>();
  for (auto [name, value] : {std::pair(StringRef(kLossScale), options.initial),
                             {StringRef(kCleanSteps), 0.0},
                             {StringRef(kSkippedSteps), 0.0}}) {
    if (Operation *other = symbols.lookup(name))
      return other->emitError() << "has the name of a number that loss scaling keeps: " << name;
    builder.setInsertionPointToStart(module.getBody());
    for (ParameterOp before : parameters)
      builder.setInsertionPointAfter(before);
    RankedTensorType type = numberType(module.getContext());
    auto made =
        ParameterOp::create(builder, module.getLoc(), name, type, type,
                            /*trainable=*/false, /*buffer=*/true, builder.getStrArrayAttr({}));
    setInitial(made, value);
    symbols.insert(made);
  }
  return success();
}

Value addLossScale(PhaseFunction &function) { return addBuffer(function, kLossScale); }

LossScaling::LossScaling(PhaseFunction &update, const LossScaleOptions &options)
    : function(update), options(options), scale(addBuffer(update, kLossScale)),
      cleanSteps(addBuffer(update, kCleanSteps)), skippedSteps(addBuffer(update, kSkippedSteps)) {}

/// Squares of finite gradients may overflow, too.
void LossScaling::setFaults(TensorBuilder &b, Value nonFinite, Value squaredNorm) {
  Value overflows = b.compare(arith::CmpFPredicate::UGE, squaredNorm, kInfinity);
  faults = b.selectOr(overflows, 1.0, nonFinite);
}

Value LossScaling::updatesUntil(TensorBuilder &b, Value step) const {
  return b.sub(step, b.convert(skippedSteps, getElementTypeOrSelf(step)));
}

Value LossScaling::committed(TensorBuilder &b, Value fresh, Value old) const {
  return CommitOp::create(b.builder, b.loc, fresh.getType(), fresh, old, faults);
}

/// A scale that would be infinite doesn't grow.
void LossScaling::addResults(TensorBuilder &b) {
  Value isClean = b.compare(arith::CmpFPredicate::OEQ, faults, 0.0);
  Value next = b.offset(cleanSteps, 1.0);
  Value isDue = b.compare(arith::CmpFPredicate::OGE, next, double(options.growthInterval));
  Value twice = b.scale(scale, 2.0);
  Value grown = b.select(b.compare(arith::CmpFPredicate::OLT, twice, kInfinity), twice, scale);
  Value kept = b.select(isDue, grown, scale);
  MLIRContext *context = function.func().getContext();
  function.result(b.select(isClean, kept, b.scale(scale, 0.5)), bufferRole(context, kLossScale));
  function.result(b.selectOr(isClean, b.selectOr(isDue, 0.0, next), 0.0),
                  bufferRole(context, kCleanSteps));
  function.result(b.select(isClean, skippedSteps, b.offset(skippedSteps, 1.0)),
                  bufferRole(context, kSkippedSteps));
}

} // namespace dtc::training
