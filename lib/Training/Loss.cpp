#include "Loss.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/TokenPadding.h"

#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

constexpr llvm::StringLiteral kTarget = "target";

std::string namesOf(ArrayRef<RoleAttr> roles) {
  return llvm::join(llvm::map_range(roles, [](RoleAttr role) { return role.getName().str(); }),
                    ", ");
}

bool isFloatTensor(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

/// The output that the loss is about: the only float one, or the one named
/// "logits" among several.
FailureOr<Value> predictions(func::FuncOp func, ValueRange outputs, ArrayRef<RoleAttr> roles) {
  SmallVector<Value> floats;
  for (auto [output, role] : llvm::zip_equal(outputs, roles)) {
    if (!isFloatTensor(output) || shapeOf(output).empty())
      continue;
    if (role.getName() == "logits")
      return output;
    floats.push_back(output);
  }
  if (floats.size() == 1)
    return floats.front();
  if (floats.empty() && outputs.size() == 1 && isFloatTensor(outputs.front()))
    return func.emitError() << "the model gives a number and no predictions; where it is its loss, "
                               "--loss output:"
                            << roles.front().getName() << " trains it";
  if (floats.empty())
    return func.emitError() << "the model has no float output for the loss: " << namesOf(roles);
  return func.emitError() << "several outputs could be the predictions and none is named "
                             "'logits': "
                          << namesOf(roles);
}

LogicalResult checkTargetName(func::FuncOp func) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (RoleAttr role = getArgRole(func, i))
      if (role.getKind() == RoleKind::Input && role.getName() == kTarget)
        return func.emitError("the model has an input with the name of the loss' own: target");
  return success();
}

/// The class weights, and 0 for what is no class of `size`.
Value weightTable(TensorBuilder &b, Type element, int64_t size, const TrainOptions &options) {
  SmallVector<Attribute> values =
      llvm::map_to_vector(options.classWeights, [&](double weight) -> Attribute {
        return b.builder.getFloatAttr(element, weight);
      });
  values.resize(size, b.builder.getFloatAttr(element, 0.0));
  auto type = RankedTensorType::get({size}, element);
  return arith::ConstantOp::create(b.builder, b.loc, DenseElementsAttr::get(type, values));
}

/// The class weight of each target, 0 of ignored ones.
Value weightsOf(TensorBuilder &b, Value target, Type element, const TrainOptions &options) {
  Value table = weightTable(b, element, int64_t(options.classWeights.size()), options);
  Value weights =
      GatherOp::create(b.builder, b.loc, cast<RankedTensorType>(target.getType()).clone(element),
                       table, target, /*axis=*/b.builder.getI64IntegerAttr(0),
                       /*paddingRow=*/IntegerAttr());
  return b.selectOr(b.compare(arith::CmpIPredicate::eq, target, options.ignoreIndex), 0.0, weights);
}

class LossBuilder {
public:
  LossBuilder(PhaseFunction &function, ValueRange outputs, ArrayRef<RoleAttr> roles,
              const TrainOptions &options)
      : function(function), func(function.func()), context(func.getContext()), outputs(outputs),
        roles(roles), options(options) {}

  FailureOr<Loss> build() {
    switch (options.loss) {
    case LossKind::CrossEntropy:
      return crossEntropy();
    case LossKind::MeanSquaredError:
      return meanSquaredError();
    case LossKind::Output:
      return modelLoss();
    case LossKind::None:
      break;
    }
    return func.emitError("no loss to build");
  }

private:
  FailureOr<Loss> crossEntropy() {
    FailureOr<Value> logits = predictions(func, outputs, roles);
    if (failed(logits) || failed(checkTargetName(func)))
      return failure();
    const int64_t classes = shapeOf(*logits).back();
    if (failed(checkClasses(classes)))
      return failure();
    std::optional<PaddedClasses> padded;
    if (leavesZeros(options))
      padded = padClasses(func, *logits, options.classMultiple);
    if (padded)
      logits = padded->logits;
    ArrayRef<int64_t> shape = shapeOf(*logits);
    if (shape.size() > 3)
      func.emitWarning() << "cross_entropy takes the last dimension of the output for the classes, "
                         << shape.back() << " of them; PyTorch's takes the second one, " << shape[1]
                         << ": export output.movedim(1, -1) where that is meant";
    SmallVector<int64_t> own(shape.drop_back());
    if (auto tokens = func->getAttrOfType<IntegerAttr>(kOwnTokens))
      own[1] = tokens.getInt();
    Value given = addTarget(own, IntegerType::get(context, 64));
    Value count = addCount();
    OpBuilder builder = function.builder();
    TensorBuilder b(builder, nameLoc("loss"));
    Value target = ignoredBeyond(b, given, shape.drop_back());
    Type rows =
        RankedTensorType::get(shape.drop_back(), statisticsType(getElementTypeOrSelf(*logits)));
    auto op = CrossEntropyOp::create(builder, b.loc, rows, rows, *logits, target,
                                     static_cast<uint64_t>(options.ignoreIndex));
    Value losses = op.getLoss();
    if (!options.classWeights.empty())
      losses = b.mul(losses, weightsOf(b, target, getElementTypeOrSelf(losses), options));
    if (options.labelSmoothing != 0)
      losses = smoothed(b, losses, op, classes);
    return Loss{scalarSum(b, losses), losses, /*squared=*/false, count, padded};
  }

  /// Targets of `shape`, of which those behind the tokens of a sample count for nothing.
  Value ignoredBeyond(TensorBuilder &b, Value target, ArrayRef<int64_t> shape) {
    if (shapeOf(target) == shape)
      return target;
    const SmallVector<int64_t> zeros(shape.size(), 0);
    auto type = cast<RankedTensorType>(target.getType()).clone(shape);
    auto padded = PadOp::create(b.builder, b.loc, type, target, zeros, zeros,
                                APFloat(double(options.ignoreIndex)));
    padded->setAttr(kTokenPadding, b.builder.getUnitAttr());
    return padded;
  }

  /// PyTorch's: (1 - e) * losses + e / C * the losses that all C classes would have as targets,
  /// each with its weight. That of class c is lse - logits[c], and lse is loss + logits[target].
  /// What is padded is no class, and has a share of 0.
  Value smoothed(TensorBuilder &b, Value losses, CrossEntropyOp op, int64_t classes) {
    Value logits = b.widen(op.getLogits()), target = op.getTarget();
    ArrayRef<int64_t> shape = shapeOf(logits);
    const int64_t last = shape.size() - 1;
    Value picked = PickOp::create(b.builder, b.loc, op.getLoss().getType(), logits, target);
    Value lse = b.add(op.getLoss(), picked);
    double total = double(classes);
    Value counted =
        shape.back() == classes ? logits : replaceBeyond(b, logits, classes, /*beyond=*/0.0);
    if (!options.classWeights.empty()) {
      total = std::accumulate(options.classWeights.begin(), options.classWeights.end(), 0.0);
      Value table = weightTable(b, getElementTypeOrSelf(logits), shape.back(), options);
      counted = b.mul(counted, b.broadcast(table, {last}, shape));
    }
    Value uniform = b.sub(b.scale(lse, total), b.sum(counted, {last}));
    Value ignored = b.compare(arith::CmpIPredicate::eq, target, options.ignoreIndex);
    uniform = b.selectOr(ignored, 0.0, uniform);
    const double share = options.labelSmoothing;
    return b.add(b.scale(losses, 1 - share), b.scale(uniform, share / double(classes)));
  }

  LogicalResult checkClasses(int64_t classes) {
    if (options.classWeights.empty() || int64_t(options.classWeights.size()) == classes)
      return success();
    return func.emitError() << "has " << classes << " classes, but there are "
                            << options.classWeights.size() << " class weights";
  }

  FailureOr<Loss> meanSquaredError() {
    FailureOr<Value> output = predictions(func, outputs, roles);
    if (failed(output) || failed(checkTargetName(func)))
      return failure();
    Type type = statisticsType(getElementTypeOrSelf(*output));
    Value target = addTarget(shapeOf(*output), type);
    Value count = addCount();
    OpBuilder builder = function.builder();
    TensorBuilder b(builder, nameLoc("loss"));
    Value difference = b.sub(b.widen(*output), target);
    Value sum = scalarSum(b, b.square(difference));
    return Loss{sum, difference, /*squared=*/true, count};
  }

  FailureOr<Loss> modelLoss() {
    if (options.numMicrobatches > 1)
      return func.emitError() << "a loss that the model computes is a mean of its own and can't "
                                 "be put together from microbatches: "
                              << options.lossOutput;
    for (auto [output, role] : llvm::zip_equal(outputs, roles)) {
      if (role.getName() != options.lossOutput)
        continue;
      if (!isFloatTensor(output) || cast<RankedTensorType>(output.getType()).getNumElements() != 1)
        return func.emitError() << "the output that is to be the loss must be one float: "
                                << role.getName() << " is " << output.getType();
      Value count = addCount();
      OpBuilder builder = function.builder();
      TensorBuilder b(builder, nameLoc("loss"));
      Value sum = b.convert(b.reshape(output, {}), builder.getF32Type());
      return Loss{sum, output, /*squared=*/false, count};
    }
    return func.emitError() << "the model has no output named '" << options.lossOutput
                            << "'; it has: " << namesOf(roles);
  }

  Value addTarget(ArrayRef<int64_t> shape, Type elementType) {
    return function.argument(RankedTensorType::get(shape, elementType),
                             roleOf(context, RoleKind::Target, kTarget));
  }

  Value addCount() {
    return function.argument(RankedTensorType::get({}, Float32Type::get(context)),
                             scalarRole(context, ScalarKind::Count));
  }

  Value scalarSum(TensorBuilder &b, Value values) {
    return b.convert(sumOfAll(b, values), b.builder.getF32Type());
  }

  Location nameLoc(StringRef name) {
    return NameLoc::get(StringAttr::get(context, name), func.getLoc());
  }

  PhaseFunction &function;
  func::FuncOp func;
  MLIRContext *context;
  ValueRange outputs;
  ArrayRef<RoleAttr> roles;
  const TrainOptions &options;
};

} // namespace

FailureOr<Loss> buildLoss(PhaseFunction &function, ValueRange outputs, ArrayRef<RoleAttr> roles,
                          const TrainOptions &options) {
  return LossBuilder(function, outputs, roles, options).build();
}

Value buildSeed(TensorBuilder &b, const Loss &loss, Value scale) {
  Value inverse = scale ? b.div(scale, loss.count) : b.reciprocal(loss.count);
  inverse = b.convert(inverse, getElementTypeOrSelf(loss.start));
  Value seed = b.broadcast(inverse, {}, shapeOf(loss.start));
  return loss.squared ? b.mul(b.scale(loss.start, 2.0), seed) : seed;
}

Value sumOfAll(TensorBuilder &b, Value value) {
  int64_t rank = shapeOf(value).size();
  if (rank > 1)
    value = b.sum(value, {rank - 1});
  return b.sum(value, otherDims(shapeOf(value).size(), {}));
}

/// Valid targets are counted as integers: f32 sums stand still at 2^24. With class weights the mean
/// is over these.
static Value countValid(TensorBuilder &b, Value target, const TrainOptions &options) {
  if (!options.classWeights.empty())
    return sumOfAll(b, weightsOf(b, target, b.builder.getF32Type(), options));
  Value valid = b.compare(arith::CmpIPredicate::ne, target, options.ignoreIndex);
  Value ones = arith::ExtUIOp::create(b.builder, b.loc, target.getType(), valid);
  return b.convert(sumOfAll(b, ones), b.builder.getF32Type());
}

LogicalResult buildPrologue(ModuleOp module, func::FuncOp lossAndGrads,
                            int64_t valuesPerMicrobatch, const TrainOptions &options) {
  MLIRContext *context = module.getContext();
  PhaseFunction function(module, kPrologue);
  OpBuilder builder = function.builder();
  TensorBuilder b(builder, NameLoc::get(StringAttr::get(context, "count"), module.getLoc()));
  Value count;
  if (options.loss == LossKind::CrossEntropy) {
    unsigned index = 0;
    while (getArgRole(lossAndGrads, index).getKind() != RoleKind::Target)
      ++index;
    auto type = cast<RankedTensorType>(lossAndGrads.getArgument(index).getType());
    SmallVector<int64_t> shape(type.getShape());
    if (shape.empty() && options.numMicrobatches > 1)
      return lossAndGrads.emitError("the logits have no batch dimension to cut into microbatches");
    if (!shape.empty())
      shape.front() *= options.numMicrobatches;
    Value target =
        function.argument(type.clone(shape), roleOf(context, RoleKind::Target, kTarget));
    count = countValid(b, target, options);
  } else {
    double total = static_cast<double>(valuesPerMicrobatch) * options.numMicrobatches;
    count = b.constant(RankedTensorType::get({}, builder.getF32Type()), total);
  }
  function.result(count, roleOf(context, RoleKind::Count));
  function.finish();
  return success();
}

} // namespace dtc::training
