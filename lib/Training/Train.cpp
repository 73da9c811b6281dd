#include "dtc/Training/Train.h"

#include "Adapters.h"
#include "BatchNorms.h"
#include "Evaluation.h"
#include "Loss.h"
#include "LossScaling.h"
#include "PadDimension.h"
#include "Precision.h"
#include "Update.h"
#include "WidenGradient.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/StopGradientOp.h"
#include "dtc/Training/Backward.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

/// Once the backward pass is built there is nothing more to stop.
void eraseStops(Block &block) {
  for (auto stop : llvm::make_early_inc_range(block.getOps<StopGradientOp>())) {
    stop.replaceAllUsesWith(stop.getInput());
    stop.erase();
  }
}

/// Turns @forward into the functions of a step.
class StepBuilder {
public:
  StepBuilder(ModuleOp module, const TrainOptions &options)
      : module(module), context(module.getContext()), options(options) {}

  LogicalResult build() {
    if (failed(checkOptions(module, options)) || failed(findForward()))
      return failure();
    if (options.adapters.rank > 0 && failed(addAdapters(module, forward, options.adapters)))
      return failure();
    if (failed(findTrainable()) || failed(convertPrecision()))
      return failure();
    if (options.loss == LossKind::None)
      return finishForward();
    if (trainable.empty())
      return module.emitError("the model has no trainable parameter");
    if (options.scalesLoss() && failed(declareLossScale(module, options.lossScale)))
      return failure();
    if (failed(buildLossAndGrads()))
      return failure();
    return buildUpdate(module, trained, lostRoles, options);
  }

private:
  LogicalResult findForward() {
    forward = findFunction(module, kForward);
    if (!forward || forward.getBody().empty())
      return module.emitError("the module has no function to train: forward");
    if (!llvm::hasSingleElement(forward.getBody()))
      return forward.emitError("must have a single block");
    for (unsigned i = 0; i < forward.getNumArguments(); ++i)
      if (!getArgRole(forward, i) || !isa<RankedTensorType>(forward.getArgument(i).getType()))
        return forward.emitError() << "argument must be a tensor with a dtc.role: " << i;
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      if (!getResultRole(forward, i))
        return forward.emitError() << "result must have a dtc.role: " << i;
    return success();
  }

  /// Nothing is trained, so that buffers stay as they are.
  LogicalResult finishForward() {
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      if (lostRowsOf(getResultRole(forward, i)))
        return forward.emitError("has experts with too few slots for the worst case, which needs a "
                                 "loss: only a step that trains counts the rows that find none");
    SmallVector<Value> results(forward.getBody().front().getTerminator()->getOperands());
    SmallVector<RoleAttr> roles;
    for (unsigned i = 0; i < results.size(); ++i)
      roles.push_back(getResultRole(forward, i));
    PhaseFunction function(forward);
    for (auto [result, role] : llvm::zip_equal(results, roles))
      if (role.getKind() != RoleKind::Buffer)
        function.result(result, role);
    function.finish();
    eraseStops(function.body());
    eraseDeadOps(function.body());
    annotateIndexLimits(forward);
    numberForwardOps(function.body());
    return decomposeBatchNorms(forward);
  }

  /// What replaces buffers, in their types; takes it out of the outputs.
  SmallVector<BufferChange> takeChanges(SmallVector<Value> &outputs, SmallVector<RoleAttr> &roles) {
    SmallVector<BufferChange> changes;
    SmallVector<Value> otherOutputs;
    SmallVector<RoleAttr> otherRoles;
    OpBuilder builder(forward.getBody().front().getTerminator());
    for (auto [output, role] : llvm::zip_equal(outputs, roles)) {
      if (role.getKind() != RoleKind::Buffer) {
        otherOutputs.push_back(output);
        otherRoles.push_back(role);
        continue;
      }
      Value value = output;
      TensorBuilder b(builder, value.getLoc());
      for (BlockArgument argument : forward.getArguments())
        if (getArgRole(forward, argument.getArgNumber()) == role)
          value = b.convert(value, getElementTypeOrSelf(argument));
      changes.push_back({value, role});
    }
    outputs = std::move(otherOutputs);
    roles = std::move(otherRoles);
    return changes;
  }

  /// The number of rows without a slot, of each layer with too few; takes them out of the outputs.
  SmallVector<Value> takeLost(SmallVector<Value> &outputs, SmallVector<RoleAttr> &roles) {
    SmallVector<Value> lost, others;
    SmallVector<RoleAttr> otherRoles;
    for (auto [output, role] : llvm::zip_equal(outputs, roles)) {
      if (!lostRowsOf(role)) {
        others.push_back(output);
        otherRoles.push_back(role);
        continue;
      }
      OpBuilder builder(forward.getContext());
      builder.setInsertionPointAfterValue(output);
      TensorBuilder b(builder, output.getLoc());
      lost.push_back(sumOfAll(b, b.convert(output, builder.getF32Type())));
      lostRoles.push_back(role);
    }
    outputs = std::move(others);
    roles = std::move(otherRoles);
    return lost;
  }

  LogicalResult findTrainable() {
    SymbolTable symbols(module);
    for (BlockArgument argument : forward.getArguments()) {
      RoleAttr role = getArgRole(forward, argument.getArgNumber());
      if (role.getKind() != RoleKind::Parameter)
        continue;
      auto parameter = symbols.lookup<ParameterOp>(role.getName());
      if (!parameter)
        return forward.emitError() << "has no dtc.parameter: " << role.getName();
      if (!parameter.getTrainable())
        continue;
      if (!isa<FloatType>(getElementTypeOrSelf(argument)))
        return parameter.emitError() << "only float parameters can be trained: "
                                     << argument.getType();
      trainable.push_back(argument);
    }
    return success();
  }

  LogicalResult convertPrecision() {
    MLIRContext *context = module.getContext();
    FloatType target = Float32Type::get(context);
    if (options.precision == Precision::BF16 || options.precision == Precision::BF16True)
      target = BFloat16Type::get(context);
    else if (options.precision == Precision::F16)
      target = Float16Type::get(context);
    return training::convertPrecision(module, forward, target);
  }

  LogicalResult buildLossAndGrads() {
    SmallVector<Value> outputs(forward.getBody().front().getTerminator()->getOperands());
    SmallVector<RoleAttr> roles;
    for (unsigned i = 0; i < outputs.size(); ++i)
      roles.push_back(getResultRole(forward, i));
    if (leavesZeros(options))
      padHiddenFeatures(forward, options.hidden);
    changes = takeChanges(outputs, roles);
    lost = takeLost(outputs, roles);
    forward.setSymName(kLossAndGrads);
    setRuns(forward, Cadence::Microbatch, Passes::Forward | Passes::Backward);
    PhaseFunction function(forward);
    FailureOr<Loss> loss = buildLoss(function, outputs, roles, options);
    if (failed(loss))
      return failure();
    Value scale = options.scalesLoss() ? addLossScale(function) : Value();
    SmallVector<Value> kept = {loss->sum, loss->start};
    llvm::append_range(kept, lost);
    addEvaluation(function, changes, kept);
    function.declareArguments();
    if (loss->padded)
      limitTargets(loss->padded->classes);
    // Outputs that the loss does not read go before anything is numbered.
    for (const auto &[value, role] : changes)
      kept.push_back(value);
    eraseDeadOps(function.body(), kept);
    numberForwardOps(function.body());

    Backward backward(function.body(), trainable);
    if (!backward.dependsOnWanted(loss->start))
      return forward.emitError("the loss depends on no trainable parameter");
    if (failed(backward.run(loss->start, [&](OpBuilder &builder) {
          TensorBuilder b(builder, loss->start.getLoc());
          return buildSeed(b, *loss, scale);
        })))
      return failure();
    addResults(function, backward, *loss);
    function.finish();
    eraseStops(function.body());
    eraseDeadOps(function.body());
    if (failed(decomposeBatchNorms(forward)))
      return failure();
    annotateIndexLimits(forward);
    return buildPrologue(
        module, forward, cast<RankedTensorType>(loss->start.getType()).getNumElements(), options);
  }

  void limitTargets(int64_t classes) {
    for (unsigned i = 0; i < forward.getNumArguments(); ++i)
      if (getArgRole(forward, i).getKind() == RoleKind::Target)
        forward.setArgAttr(i, GraphDialect::kLimit, OpBuilder(context).getI64IntegerAttr(classes));
  }

  void addResults(PhaseFunction &function, Backward &backward, const Loss &loss) {
    SmallVector<Value> gradients;
    for (Value parameter : trainable)
      if (Value gradient = trainedGradient(parameter, backward))
        gradients.push_back(gradient);
    function.result(accumulated(function, backward, loss.sum, loss.sum,
                                roleOf(context, RoleKind::Loss)),
                    roleOf(context, RoleKind::Loss));
    for (auto [parameter, gradient] : llvm::zip_equal(trained, gradients)) {
      RoleAttr role = roleOf(context, RoleKind::Gradient, parameter.name);
      Value sum = accumulated(function, backward, parameter.argument, gradient, role);
      // As soon as there is a gradient to add: at the end all of them would be alive.
      if (sum != gradient)
        if (Operation *producer = gradient.getDefiningOp())
          sum.getDefiningOp()->moveAfter(producer);
      function.result(sum, role);
    }
    for (auto [value, role] : llvm::zip_equal(lost, lostRoles))
      function.result(accumulated(function, backward, value, value, role), role);
    for (const auto &[value, role] : changes)
      function.result(value, role);
  }

  /// The gradient of a parameter in the type in which it is accumulated; notes
  /// the parameter as trained. Like PyTorch's optimizers, which skip what has
  /// no gradient, those that the loss doesn't depend on are left as they are.
  Value trainedGradient(Value parameter, Backward &backward) {
    StringRef name =
        getArgRole(forward, cast<BlockArgument>(parameter).getArgNumber()).getName();
    Value gradient = backward.gradient(parameter);
    if (!gradient) {
      SymbolTable(module).lookup(name)->emitWarning()
          << "is left untrained, the loss does not depend on it: " << name;
      return nullptr;
    }
    auto type = cast<RankedTensorType>(parameter.getType());
    Type wide = options.precision == Precision::BF16True ? type.getElementType()
                                                         : statisticsType(type.getElementType());
    OpBuilder builder = OpBuilder::atBlockEnd(&forward.getBody().front());
    trained.push_back({name.str(), parameter, type, type.clone(wide)});
    return widenGradient(builder, gradient, wide);
  }

  /// With several microbatches: `value` plus what the ones before gave. `of` is
  /// the forward value that the sum belongs to.
  Value accumulated(PhaseFunction &function, Backward &backward, Value of, Value value,
                    RoleAttr role) {
    if (options.numMicrobatches == 1)
      return value;
    Value before = function.argument(value.getType(), role);
    return backward.accumulate(of, [&](OpBuilder &builder) -> Value {
      return SumOp::create(builder, value.getLoc(), value.getType(), ValueRange{before, value});
    });
  }

  ModuleOp module;
  MLIRContext *context;
  const TrainOptions &options;
  func::FuncOp forward;
  SmallVector<Value> trainable; ///< arguments of `forward`
  SmallVector<BufferChange> changes;
  SmallVector<Value> lost;         ///< rows without a slot, by layer
  SmallVector<RoleAttr> lostRoles; ///< likewise
  SmallVector<TrainedParameter> trained;
};

} // namespace

LogicalResult buildTraining(ModuleOp module, const TrainOptions &options) {
  return StepBuilder(module, options).build();
}

} // namespace dtc::training
