// From the IR to a problem.
#include "Functions.h"
#include "Rounds.h"

#include "dtc/Dialect/Graph/AlikeOps.h"
#include "dtc/Dialect/Graph/FilledView.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/StridedReads.h"
#include "dtc/Dialect/Graph/TokenPadding.h"
#include "dtc/Plan/Plan/Padding.h"
#include "dtc/PlanBridge/PlanBridge.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::planbridge {

using plan::OpKind;
using plan::Problem;
using plan::ValueId;
using plan::ValueKind;
using sharding::FactorId;
using sharding::FactorKind;

namespace {

class Extractor {
public:
  Extractor(ModuleOp module, const OpForms &forms)
      : module(module), forms(forms), func(microbatchFunction(module)),
        trains(findFunction(module, kUpdate) != nullptr) {}
  FailureOr<Problem> run();

private:
  LogicalResult addArguments();
  LogicalResult addOps();
  LogicalResult addOp(Operation *op);
  void addForm(Operation *source, plan::Op &op);
  const plan::Op *likeOf(Operation *op);
  LogicalResult addResults();
  FailureOr<ValueId> addValue(Value value, plan::Value facts);
  void addPadding();
  void addOptimizer();
  void addBatch();

  ModuleOp module;
  const OpForms &forms;
  func::FuncOp func;
  bool trains; ///< rather than computing the forward pass alone
  Problem problem;
  llvm::DenseMap<Value, ValueId> ids;
  llvm::DenseMap<int64_t, plan::OpId> forwardOps; ///< by dtc.id
  llvm::DenseMap<Operation *, plan::Op, AlikeOps> likes;
};

} // namespace

//===-- types and kinds ---------------------------------------------------===//

static std::optional<plan::DType> toDType(Type type) {
  if (type.isF32())
    return plan::DType::F32;
  if (type.isF64())
    return plan::DType::F64;
  if (type.isBF16())
    return plan::DType::BF16;
  if (type.isF16())
    return plan::DType::F16;
  if (type.isInteger(1))
    return plan::DType::Bool;
  if (type.isInteger(8))
    return type.isUnsignedInteger() ? plan::DType::U8 : plan::DType::I8;
  if (type.isInteger(32))
    return plan::DType::I32;
  if (type.isInteger(64) || type.isIndex())
    return plan::DType::I64;
  return std::nullopt;
}

static std::string locationName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string name = locationName(part); !name.empty())
        return name;
  return "";
}

/// Where a rounds factor is split. One whose price rounds can't say is kept whole.
static void addRounds(Operation *source, plan::Op &op) {
  for (auto [i, factor] : llvm::enumerate(op.rule->factors)) {
    if (factor.kind != FactorKind::Rounds)
      continue;
    auto id = static_cast<FactorId>(i);
    int count = roundsOver(source, op.rule, id).value_or(0);
    op.keepRounds |= count == 0;
    op.rounds.insert(op.rounds.end(), count, plan::Round{id, rowFactors(op.rule)});
  }
}

//===-- the function ------------------------------------------------------===//

FailureOr<ValueId> Extractor::addValue(Value value, plan::Value facts) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  std::optional<plan::DType> element = type ? toDType(type.getElementType()) : std::nullopt;
  if (!element || !type.hasStaticShape())
    return emitError(value.getLoc()) << "a value of this type can't be planned: "
                                     << value.getType();
  facts.shape.assign(type.getShape().begin(), type.getShape().end());
  facts.type = *element;
  auto id = static_cast<ValueId>(problem.values.size());
  problem.values.push_back(std::move(facts));
  ids[value] = id;
  return id;
}

static std::optional<ValueKind> argumentKind(RoleAttr role) {
  if (isSummedUp(role))
    return ValueKind::Accumulator;
  switch (role.getKind()) {
  case RoleKind::Parameter:
    return ValueKind::Parameter;
  case RoleKind::Buffer:
    return ValueKind::Buffer;
  case RoleKind::Input:
    return ValueKind::Input;
  case RoleKind::Target:
    return ValueKind::Target;
  case RoleKind::Scalar:
  case RoleKind::Count:
    return ValueKind::Scalar;
  default:
    return std::nullopt;
  }
}

LogicalResult Extractor::addArguments() {
  llvm::StringMap<bool> trainable;
  for (auto parameter : module.getOps<ParameterOp>())
    trainable[parameter.getSymName()] = parameter.getTrainable();
  for (BlockArgument argument : func.getArguments()) {
    RoleAttr role = getArgRole(func, argument.getArgNumber());
    std::optional<ValueKind> kind = role ? argumentKind(role) : std::nullopt;
    if (!kind)
      return func.emitError() << "argument has no role that can be planned: "
                              << argument.getArgNumber();
    plan::Value facts;
    facts.kind = *kind;
    facts.name = role.getName().str();
    // A program without a backward pass trains nothing.
    facts.trainable = trains && *kind == ValueKind::Parameter && trainable.lookup(facts.name);
    if (failed(addValue(argument, std::move(facts))))
      return failure();
  }
  problem.arguments = static_cast<int64_t>(problem.values.size());
  return success();
}

static plan::BackwardKind toKind(BackwardKind kind) {
  switch (kind) {
  case BackwardKind::InputGrad:
    return plan::BackwardKind::InputGrad;
  case BackwardKind::WeightGrad:
    return plan::BackwardKind::WeightGrad;
  case BackwardKind::Accumulate:
    return plan::BackwardKind::Accumulate;
  case BackwardKind::Recompute:
    return plan::BackwardKind::Recompute;
  }
  return plan::BackwardKind::InputGrad;
}

/// All that a problem says of ops like this one; null where that can't be planned.
const plan::Op *Extractor::likeOf(Operation *source) {
  auto [known, isNew] = likes.try_emplace(source);
  plan::Op &op = known->second;
  if (!isNew)
    return &op;
  auto ruled = dyn_cast<ShardingRuleOpInterface>(source);
  if (!ruled) {
    source->emitError() << "has no sharding rule and can't be planned: " << source->getName();
    return nullptr;
  }
  auto costed = dyn_cast<CostOpInterface>(source);
  if (!costed) {
    source->emitError() << "states no cost and can't be planned: " << source->getName();
    return nullptr;
  }
  sharding::OpCost cost = costed.getCost();
  op.name = source->getName().getStringRef().str();
  op.kind = cost.kind;
  op.rule = ruled.getShardingRule();
  op.flops = cost.flops;
  op.scratch = cost.scratch;
  op.saved = trains ? cost.saved : 0;
  op.dear = cost.dear;
  op.causal = cost.causal;
  op.window = cost.window;
  op.reads = stridedReads(source);
  op.groupedExperts = expertsFactor(source, op.rule);
  addRounds(source, op);
  return &op;
}

/// What the program of the target makes of the op.
void Extractor::addForm(Operation *source, plan::Op &op) {
  op.decomposed = op.kind == OpKind::Attention && forms.staysWhole && !forms.staysWhole(source);
  op.inProduct = forms.isPartOfProduct && forms.isPartOfProduct(source);
  op.widened = forms.isWidened && forms.isWidened(source);
  if (op.kind != OpKind::Attention || op.decomposed)
    return;
  op.partAlignment = forms.attentionAlignment;
  if (forms.attentionWorkspace)
    op.workspace = forms.attentionWorkspace(source);
}

LogicalResult Extractor::addOp(Operation *source) {
  const plan::Op *like = likeOf(source);
  if (!like)
    return failure();
  plan::Op op = *like;
  op.location = locationName(source->getLoc());
  addForm(source, op);
  op.operands.reserve(source->getNumOperands());
  op.results.reserve(source->getNumResults());
  bool addsToAccumulator = false;
  for (Value operand : source->getOperands()) {
    op.operands.push_back(ids.at(operand));
    addsToAccumulator |= problem.values[ids.at(operand)].kind == ValueKind::Accumulator;
  }
  for (Value result : source->getResults()) {
    FailureOr<ValueId> id = addValue(result, {});
    if (failed(id))
      return failure();
    op.results.push_back(*id);
  }
  auto self = static_cast<plan::OpId>(problem.ops.size());
  if (auto id = source->getAttrOfType<IntegerAttr>(GraphDialect::kId)) {
    op.forward = self;
    forwardOps[id.getInt()] = self;
  }
  if (auto backward = source->getAttrOfType<BackwardAttr>(GraphDialect::kBackward)) {
    auto it = forwardOps.find(backward.getForward());
    if (it == forwardOps.end())
      return source->emitError() << "belongs to a forward op that isn't there: "
                                 << backward.getForward();
    op.forward = it->second;
    op.backward = toKind(backward.getKind());
  }
  bool accumulates = op.backward == plan::BackwardKind::Accumulate;
  if (isa<SumOp>(source) && (accumulates || addsToAccumulator))
    op.kind = OpKind::GradientSum;
  problem.ops.push_back(std::move(op));
  return success();
}

LogicalResult Extractor::addOps() {
  SmallVector<Operation *> ops = plannedOps(func);
  problem.ops.reserve(ops.size());
  for (Operation *op : ops)
    if (failed(addOp(op)))
      return failure();
  return success();
}

LogicalResult Extractor::addResults() {
  auto *terminator = func.front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    plan::FunctionResult result;
    result.value = ids.at(value);
    if (RoleAttr role = getResultRole(func, i)) {
      result.name = role.getName().str();
      if (role.getKind() == RoleKind::Gradient)
        result.kind = plan::ResultKind::Gradient;
      else if (isSummedUp(role))
        result.kind = plan::ResultKind::Loss;
    }
    problem.results.push_back(std::move(result));
  }
  return success();
}

/// Of the weights that the graph sees longer than files have them, and of the tokens beside those
/// of samples.
void Extractor::addPadding() {
  llvm::StringMap<ArrayRef<int64_t>> filled;
  for (auto parameter : module.getOps<ParameterOp>())
    filled[parameter.getSymName()] = filledOf(parameter);
  std::map<ValueId, std::vector<int64_t>> padded;
  for (ValueId id = 0; id < static_cast<ValueId>(problem.arguments); ++id) {
    const plan::Value &value = problem.values[id];
    auto known = filled.find(value.name);
    if (value.kind == ValueKind::Parameter && known != filled.end() &&
        known->second != ArrayRef(value.shape))
      padded[id] = known->second.vec();
  }
  func.walk([&](Operation *op) {
    if (op->hasAttr(kTokenPadding))
      padded[ids.at(op->getResult(0))] = shapeOf(op->getOperand(0)).vec();
  });
  plan::markPadding(problem, padded);
}

//===-- the step ----------------------------------------------------------===//

void Extractor::addOptimizer() {
  func::FuncOp update = findFunction(module, kUpdate);
  if (!update)
    return;
  std::string first;
  for (BlockArgument argument : update.getArguments()) {
    RoleAttr role = getArgRole(update, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!role || !type)
      continue;
    int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    if (role.getKind() == RoleKind::Master)
      problem.optimizer.masterBytes = bytes;
    if (role.getKind() == RoleKind::Gradient)
      problem.optimizer.gradientBytes = bytes;
    if (role.getKind() != RoleKind::State)
      continue;
    if (first.empty())
      first = role.getName().str();
    problem.optimizer.states += role.getName() == first;
    problem.optimizer.stateBytes = bytes;
  }
}

void Extractor::addBatch() {
  auto isData = [](const plan::Value &value) {
    bool hasKind = value.kind == ValueKind::Input || value.kind == ValueKind::Target;
    return hasKind && !value.shape.empty();
  };
  // Inputs without samples have a first dimension of 1.
  for (const plan::Value &value : problem.values)
    if (isData(value))
      problem.batch = std::max(problem.batch, value.shape[0]);
  for (const plan::Value &value : problem.values) {
    if (!isData(value) || value.shape[0] != problem.batch)
      continue;
    bool integer = value.type == plan::DType::I64 || value.type == plan::DType::I32;
    if (value.kind == ValueKind::Input && integer && value.shape.size() >= 2 &&
        problem.tokensPerSample == 0)
      problem.tokensPerSample = value.shape[1];
  }
  // Targets of all microbatches come into the prologue at once.
  func::FuncOp prologue = findFunction(module, kPrologue);
  for (unsigned i = 0; prologue && i < prologue.getNumArguments(); ++i) {
    RoleAttr role = getArgRole(prologue, i);
    auto type = dyn_cast<RankedTensorType>(prologue.getArgument(i).getType());
    if (role && type && role.getKind() == RoleKind::Target && type.getRank() > 0 &&
        problem.batch > 0)
      problem.numMicrobatches = std::max<int64_t>(1, type.getDimSize(0) / problem.batch);
  }
}

FailureOr<Problem> Extractor::run() {
  if (!func)
    return module.emitError("has neither @loss_and_grads nor @forward to plan"), failure();
  if (!func.getBody().hasOneBlock())
    return func.emitError("must have one block to be planned"), failure();
  if (failed(addArguments()) || failed(addOps()) || failed(addResults()))
    return failure();
  addPadding();
  addOptimizer();
  addBatch();
  if (std::string error = plan::check(problem); !error.empty())
    return func.emitError() << "can't be planned: " << error, failure();
  return std::move(problem);
}

FailureOr<Problem> extract(ModuleOp module, const OpForms &forms) {
  return Extractor(module, forms).run();
}

} // namespace dtc::planbridge
