#include "Update.h"

#include "Loss.h"
#include "LossScaling.h"
#include "Names.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StepOps.h"

#include "llvm/ADT/StringSet.h"

#include <re2/re2.h>

#include <limits>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

/// The arguments that belong to one parameter.
struct Operands {
  Value parameter;
  Value master; ///< the parameter itself unless it is kept in a narrower type
  SmallVector<Value> states;
  Value gradient;
};

/// Which pieces of state an optimizer keeps for each parameter.
SmallVector<StateKind> stateKinds(const TrainOptions &options) {
  if (options.optimizer != OptimizerKind::Sgd)
    return {StateKind::ExpAvg, StateKind::ExpAvgSq};
  if (options.momentum != 0.0)
    return {StateKind::Momentum};
  return {};
}

class UpdateBuilder {
public:
  UpdateBuilder(ModuleOp module, ArrayRef<TrainedParameter> parameters,
                ArrayRef<RoleAttr> lostRoles, const TrainOptions &options)
      : function(module, kUpdate), context(module.getContext()), parameters(parameters),
        lostRoles(lostRoles), options(options), states(stateKinds(options)),
        builder(function.builder()),
        b(builder, NameLoc::get(StringAttr::get(context, "update"), module.getLoc())),
        exempt(exemptOf(module, options)) {}

  void build() {
    addArguments();
    sumStepVector();
    Value norm = b.unary<math::SqrtOp>(squaredNorm);
    if (scaling)
      norm = b.mul(norm, scaling->inverse(b));
    gradScale = clippingFactor(norm);
    if (scaling) {
      scaling->setFaults(b, nonFinite, squaredNorm);
      gradScale = b.mul(gradScale, scaling->inverse(b));
      step = scaling->updatesUntil(b, step);
    }
    if (options.optimizer != OptimizerKind::Sgd) {
      correction1 = correction(options.beta1);
      correction2 = correction(options.beta2);
    }
    for (auto [parameter, operands] : llvm::zip_equal(parameters, arguments))
      updates.push_back(update(parameter, operands));
    addResults();
    function.result(norm, roleOf(context, RoleKind::GradNorm));
    function.result(b.div(loss, count), roleOf(context, RoleKind::Loss));
    function.result(nonFinite, roleOf(context, RoleKind::Count, kNonFinite));
    if (scaling)
      scaling->addResults(b);
    if (lost)
      function.result(lost, lostRowsRole(context, {lostRowsOf(lostRoles.front())->areDropped}));
    function.finish();
  }

private:
  static bool hasMaster(const TrainedParameter &parameter) {
    return parameter.type != parameter.gradient;
  }

  Value scalar(Type type, ScalarKind kind) {
    return function.argument(RankedTensorType::get({}, type), scalarRole(context, kind));
  }

  void addArguments() {
    arguments.resize(parameters.size());
    for (auto [parameter, operands] : llvm::zip_equal(parameters, arguments))
      operands.parameter = operands.master = function.argument(
          parameter.type, roleOf(context, RoleKind::Parameter, parameter.name));
    for (auto [parameter, operands] : llvm::zip_equal(parameters, arguments))
      if (hasMaster(parameter))
        operands.master = function.argument(
            parameter.gradient, roleOf(context, RoleKind::Master, parameter.name));
    for (auto [parameter, operands] : llvm::zip_equal(parameters, arguments))
      for (StateKind state : states)
        operands.states.push_back(function.argument(
            parameter.gradient, stateRole(context, parameter.name, state)));
    for (auto [parameter, operands] : llvm::zip_equal(parameters, arguments))
      operands.gradient = function.argument(
          parameter.gradient, roleOf(context, RoleKind::Gradient, parameter.name));
    loss = function.argument(RankedTensorType::get({}, builder.getF32Type()),
                             roleOf(context, RoleKind::Loss));
    for (RoleAttr role : lostRoles)
      lostTerms.push_back(function.argument(loss.getType(), role));
    rate = scalar(builder.getF64Type(), ScalarKind::LearningRate);
    step = scalar(builder.getF64Type(), ScalarKind::Step);
    count = scalar(builder.getF32Type(), ScalarKind::Count);
    if (options.scalesLoss())
      scaling.emplace(function, options.lossScale);
  }

  /// Squares and elements that aren't finite are summed per parameter, and the sums once.
  void sumStepVector() {
    SmallVector<Value> squares, faults;
    for (const Operands &operands : arguments) {
      Value gradient = b.widen(operands.gradient);
      squares.push_back(total(b.square(gradient)));
      faults.push_back(total(b.convert(isNotFinite(gradient), builder.getF32Type())));
    }
    SmallVector<Value> numbers(StepVectorOp::kSquares + 1);
    numbers[StepVectorOp::kLoss] = loss;
    numbers[StepVectorOp::kCount] = count;
    numbers[StepVectorOp::kNonFinite] = SumOp::create(builder, b.loc, loss.getType(), faults);
    numbers[StepVectorOp::kSquares] = SumOp::create(builder, b.loc, loss.getType(), squares);
    if (!lostTerms.empty())
      numbers.push_back(SumOp::create(builder, b.loc, loss.getType(), lostTerms));
    auto vector = StepVectorOp::create(builder, b.loc, TypeRange(ValueRange(numbers)),
                                       ValueRange(numbers), /*countsLost=*/!lostTerms.empty());
    loss = vector.getResult(StepVectorOp::kLoss);
    count = vector.getResult(StepVectorOp::kCount);
    nonFinite = vector.getResult(StepVectorOp::kNonFinite);
    squaredNorm = vector.getResult(StepVectorOp::kSquares);
    if (!lostTerms.empty())
      lost = vector->getResults().back();
  }

  Value total(Value values) { return b.convert(sumOfAll(b, values), builder.getF32Type()); }

  Value isNotFinite(Value values) {
    return b.compare(arith::CmpFPredicate::UGE, b.unary<math::AbsFOp>(values),
                     std::numeric_limits<double>::infinity());
  }

  /// min(1, max / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
  Value clippingFactor(Value norm) {
    if (!options.clipGradNorm)
      return b.constantLike(norm, 1.0);
    Value ratio = b.div(b.constantLike(norm, *options.clipGradNorm), b.offset(norm, 1e-6));
    return b.minimum(ratio, b.constantLike(ratio, 1.0));
  }

  /// 1 - beta^step
  Value correction(double beta) {
    Value power = math::PowFOp::create(builder, b.loc, b.constantLike(step, beta), step);
    return b.sub(b.constantLike(power, 1.0), power);
  }

  /// The parameters without weight decay.
  static llvm::StringSet<> exemptOf(ModuleOp module, const TrainOptions &options) {
    llvm::StringSet<> names;
    RE2 pattern(options.noDecay.value_or(""), RE2::Quiet);
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      if (options.noDecay && hasName(parameter, pattern))
        names.insert(parameter.getSymName());
    if (options.noDecay && names.empty())
      module.emitWarning() << "no parameter matches, so that all decay: " << *options.noDecay;
    return names;
  }

  double weightDecay(const TrainedParameter &parameter) const {
    return exempt.contains(parameter.name) ? 0.0 : options.weightDecay;
  }

  /// The new master and the new states.
  SmallVector<Value> update(const TrainedParameter &parameter, const Operands &operands) {
    SmallVector<Value> fresh = updated(parameter, operands);
    if (!scaling)
      return fresh;
    TensorBuilder at(builder, fresh.front().getLoc());
    fresh[0] = scaling->committed(at, fresh[0], operands.master);
    for (auto [i, state] : llvm::enumerate(operands.states))
      fresh[i + 1] = scaling->committed(at, fresh[i + 1], state);
    return fresh;
  }

  SmallVector<Value> updated(const TrainedParameter &parameter, const Operands &operands) {
    Location loc = NameLoc::get(builder.getStringAttr(parameter.name), b.loc);
    FloatAttr decay = builder.getF64FloatAttr(weightDecay(parameter));
    Type type = parameter.gradient;
    if (options.optimizer == OptimizerKind::Sgd) {
      Value buffer = operands.states.empty() ? Value() : operands.states.front();
      auto op = SgdUpdateOp::create(
          builder, loc, type, buffer ? type : Type(), operands.master, operands.gradient, buffer,
          rate, gradScale, builder.getF64FloatAttr(options.momentum), decay,
          options.nesterov ? builder.getUnitAttr() : UnitAttr());
      return op->getResults();
    }
    bool decoupled = options.optimizer == OptimizerKind::AdamW;
    auto op = AdamUpdateOp::create(
        builder, loc, type, type, type, operands.master, operands.gradient, operands.states[0],
        operands.states[1], rate, gradScale, correction1, correction2,
        builder.getF64FloatAttr(options.beta1), builder.getF64FloatAttr(options.beta2),
        builder.getF64FloatAttr(options.eps), decay,
        decoupled ? builder.getUnitAttr() : UnitAttr());
    return op->getResults();
  }

  void addResults() {
    for (auto [parameter, updated] : llvm::zip_equal(parameters, updates))
      function.result(b.convert(updated.front(), parameter.type.getElementType()),
                      roleOf(context, RoleKind::Parameter, parameter.name));
    for (auto [parameter, updated] : llvm::zip_equal(parameters, updates))
      if (hasMaster(parameter))
        function.result(updated.front(), roleOf(context, RoleKind::Master, parameter.name));
    for (auto [parameter, updated] : llvm::zip_equal(parameters, updates))
      for (auto [state, value] : llvm::zip_equal(states, ArrayRef(updated).drop_front()))
        function.result(value, stateRole(context, parameter.name, state));
  }

  PhaseFunction function;
  MLIRContext *context;
  ArrayRef<TrainedParameter> parameters;
  ArrayRef<RoleAttr> lostRoles;
  const TrainOptions &options;
  SmallVector<StateKind> states;
  OpBuilder builder;
  TensorBuilder b;
  llvm::StringSet<> exempt; ///< without weight decay
  SmallVector<Operands> arguments;
  SmallVector<SmallVector<Value>> updates;
  std::optional<LossScaling> scaling; ///< none: the loss is as it is
  Value rate, gradScale, correction1, correction2;
  Value step;                   ///< its number; the update's where the loss is scaled
  Value loss, count;            ///< of the step vector, once it is summed
  Value nonFinite, squaredNorm; ///< likewise
  Value lost;                   ///< likewise; null: all rows have slots
  SmallVector<Value> lostTerms; ///< by layer
};

struct NamedNumber {
  StringRef name;
  double value;
};

LogicalResult checkNumbers(ModuleOp module, const TrainOptions &options) {
  for (NamedNumber beta : {NamedNumber{"beta1", options.beta1}, {"beta2", options.beta2}})
    if (!(beta.value >= 0.0 && beta.value < 1.0))
      return module.emitError() << beta.name << " must be in [0, 1): " << beta.value;
  for (NamedNumber number : {NamedNumber{"eps", options.eps},
                             {"weight decay", options.weightDecay},
                             {"momentum", options.momentum}})
    if (!(number.value >= 0.0 && std::isfinite(number.value)))
      return module.emitError() << number.name
                                << " must be finite and not negative: " << number.value;
  if (options.clipGradNorm && !(*options.clipGradNorm > 0.0))
    return module.emitError() << "the gradient norm to clip to must be positive: "
                              << *options.clipGradNorm;
  return success();
}

} // namespace

LogicalResult checkOptions(ModuleOp module, const TrainOptions &options) {
  if (options.numMicrobatches < 1)
    return module.emitError() << "the number of microbatches must be at least 1: "
                              << options.numMicrobatches;
  for (int64_t multiple : {options.classMultiple, options.hidden.ways, options.hidden.multiple})
    if (multiple < 1)
      return module.emitError() << "what is padded must be padded to a multiple of at least 1: "
                                << multiple;
  if (options.adapters.rank < 0)
    return module.emitError() << "the rank of adapters must not be negative: "
                              << options.adapters.rank;
  if (options.optimizer != OptimizerKind::Sgd && options.momentum != 0.0)
    return module.emitError() << "only sgd has a momentum: " << options.momentum;
  if (options.nesterov && (options.optimizer != OptimizerKind::Sgd || options.momentum == 0.0))
    return module.emitError("Nesterov's momentum needs sgd with a momentum");
  if (options.noDecay)
    if (RE2 pattern(*options.noDecay, RE2::Quiet); !pattern.ok())
      return module.emitError() << "not a regular expression (" << pattern.error()
                                << "): " << *options.noDecay;
  const LossScaleOptions &scale = options.lossScale;
  if (scale.growthInterval < 1 || scale.growthInterval > scale.kMostInterval)
    return module.emitError() << "the loss scale's growth interval must be from 1 to "
                              << scale.kMostInterval << ": " << scale.growthInterval;
  if (!(scale.initial >= scale.kLeast && scale.initial <= scale.kMost))
    return module.emitError() << "the loss scale must be from " << scale.kLeast << " to "
                              << scale.kMost << ": " << scale.initial;
  return checkNumbers(module, options);
}

LogicalResult buildUpdate(ModuleOp module, ArrayRef<TrainedParameter> parameters,
                          ArrayRef<RoleAttr> lostRoles, const TrainOptions &options) {
  UpdateBuilder(module, parameters, lostRoles, options).build();
  return success();
}

} // namespace dtc::training
