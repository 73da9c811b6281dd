#include "CutUpdate.h"

#include "StageFunction.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {
namespace {

/// Which parameter a value of @update is about: none, or one by its index.
constexpr int kNone = -1;

class UpdateCutter {
public:
  UpdateCutter(const StepGraph &step, const UpdateFacts &facts, int rank, ModuleOp module)
      : step(step), facts(facts), rank(rank), module(module) {
    for (auto [i, parameter] : llvm::enumerate(facts.parameters)) {
      index[parameter.name] = static_cast<int>(i);
      if (llvm::is_contained(parameter.holders, rank))
        own.insert(static_cast<int>(i));
    }
  }

  LogicalResult build() {
    if (failed(findOwners()))
      return failure();
    addArguments();
    function = createFunction(module, kUpdate, step.getUpdate().getLoc(), signature);
    setRuns(function, Cadence::Step);
    mapping.map(arguments, function.getArguments());
    builder = OpBuilder::atBlockEnd(&function.front());
    sumTiedGradients();
    for (Operation &op : step.getUpdate().front().without_terminator()) {
      if (&op == vector)
        sumStepVector();
      else if (!isTotal(&op) && failed(cloneOwn(&op)))
        return failure();
    }
    addResults();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    return success();
  }

private:
  int ownerOf(RoleAttr role) const {
    switch (role.getKind()) {
    case RoleKind::Parameter:
    case RoleKind::Master:
    case RoleKind::State:
    case RoleKind::Gradient:
      return index.lookup(role.getName());
    default:
      return kNone;
    }
  }

  /// A number of the step vector, of all parameters.
  bool isTotal(Operation *op) const {
    return isa<SumOp>(op) && op->hasOneUse() && *op->user_begin() == vector;
  }

  /// What is about several parameters must be a number of the step vector: all else that one
  /// parameter's update reads is its own or everybody's.
  LogicalResult findOwners() {
    for (auto op : step.getUpdate().front().getOps<StepVectorOp>())
      vector = op;
    if (!vector)
      return step.getUpdate().emitOpError("has no step vector");
    SmallVector<unsigned> totals = {StepVectorOp::kNonFinite, StepVectorOp::kSquares};
    if (vector.getCountsLost())
      totals.push_back(vector.getNumOperands() - 1);
    for (unsigned place : totals)
      if (Operation *total = vector.getOperand(place).getDefiningOp(); !total || !isTotal(total))
        return vector.emitOpError("has a number that isn't a sum of its own: ") << place;
    for (BlockArgument argument : step.getUpdate().getArguments())
      owners[argument] = ownerOf(getArgRole(step.getUpdate(), argument.getArgNumber()));
    for (Operation &op : step.getUpdate().front().without_terminator()) {
      if (&op == vector || isTotal(&op))
        continue; // everybody's
      int owner = kNone;
      for (Value operand : op.getOperands()) {
        auto known = owners.find(operand);
        int other = known == owners.end() ? kNone : known->second;
        if (owner != kNone && other != kNone && owner != other)
          return op.emitOpError("mixes parameters, and isn't a number of the step vector");
        owner = std::max(owner, other);
      }
      for (Value result : op.getResults())
        owners[result] = owner;
    }
    return success();
  }

  bool isOwn(int owner) const { return owner == kNone || own.contains(owner); }
  int ownerOf(Value value) const {
    auto known = owners.find(value);
    return known == owners.end() ? kNone : known->second;
  }

  bool hasArgument(RoleAttr role) const {
    if (role.getKind() == RoleKind::Gradient)
      return llvm::is_contained(facts.parameters[ownerOf(role)].terms, rank);
    if (lostRowsOf(role))
      return facts.countedOn.lookup(role.getName()) == rank;
    bool isCount = role.getKind() == RoleKind::Scalar && role.getScalar() == ScalarKind::Count;
    return role.getKind() == RoleKind::Loss || isCount ? rank == facts.lossRank
                                                       : isOwn(ownerOf(role));
  }

  void addArguments() {
    for (BlockArgument argument : step.getUpdate().getArguments()) {
      unsigned number = argument.getArgNumber();
      if (!hasArgument(getArgRole(step.getUpdate(), number)))
        continue;
      arguments.push_back(argument);
      signature.add(argument.getType(), argumentAttributes(step.getUpdate(), number));
    }
  }

  Value zeroLike(Value value) {
    return TensorBuilder(builder, value.getLoc()).constantLike(value, 0.0);
  }
  Value ownOrZero(Value value) {
    Value known = mapping.lookupOrNull(value);
    return known ? known : zeroLike(value);
  }

  Operation *stageSum(ArrayRef<Value> values, ArrayRef<int64_t> stages, bool apart) {
    auto sum =
        dist::StageSumOp::create(builder, step.getUpdate().getLoc(), TypeRange(ValueRange(values)),
                                 values, step.getMesh().getSymName(), stages,
                                 /*axes=*/nullptr, apart);
    if (!apart)
      return sum;
    // Whole on all ranks: shardings on other meshes differ.
    sharding::ShardingRule rule = sum.buildShardingRule(UnitFactors::Omitted);
    sharding::OpSharding whole;
    whole.factors.resize(rule.factors.size());
    auto mesh = FlatSymbolRefAttr::get(step.getMesh().getSymNameAttr());
    sum->setAttr(dist::DistDialect::kOp,
                 dist::toAttr(module.getContext(), mesh, whole, rule, step.getShape()));
    return sum;
  }

  /// One after the other in the order of parameters, which is the same on all ranks.
  void sumTiedGradients() {
    for (BlockArgument argument : step.getUpdate().getArguments()) {
      RoleAttr role = getArgRole(step.getUpdate(), argument.getArgNumber());
      if (role.getKind() != RoleKind::Gradient || !own.contains(ownerOf(role)))
        continue;
      const TrainedParameter &parameter = facts.parameters[ownerOf(role)];
      if (parameter.holders.size() == 1)
        continue;
      // Rank r has stage r.
      SmallVector<int64_t> stages(parameter.holders.begin(), parameter.holders.end());
      mapping.map(argument, stageSum(ownOrZero(argument), stages, parameter.apart)->getResult(0));
    }
  }

  void sumStepVector() {
    SmallVector<Value> numbers(StepVectorOp::kSquares);
    for (unsigned place : {StepVectorOp::kLoss, StepVectorOp::kCount})
      numbers[place] = ownOrZero(vector.getOperand(place));
    auto stages = llvm::to_vector(llvm::seq(0, step.numStages()));
    numbers[StepVectorOp::kNonFinite] = sumOf(termsOf(StepVectorOp::kNonFinite, stages));
    for (int stage : stages)
      numbers.push_back(sumOf(termsOf(StepVectorOp::kSquares, stage)));
    if (vector.getCountsLost())
      numbers.push_back(sumOf(ownLost()));
    auto own = StepVectorOp::create(builder, vector.getLoc(), TypeRange(ValueRange(numbers)),
                                    ValueRange(numbers), vector.getCountsLost());
    Operation *sums =
        stageSum(llvm::to_vector_of<Value>(own.getResults()),
                 llvm::to_vector(llvm::seq<int64_t>(0, step.numRanks())), facts.apart);
    for (unsigned place = 0; place < StepVectorOp::kSquares; ++place)
      mapping.map(vector.getResult(place), sums->getResult(place));
    auto squares = sums->getResults().drop_front(StepVectorOp::kSquares);
    if (vector.getCountsLost()) {
      mapping.map(vector->getResults().back(), squares.back());
      squares = squares.drop_back();
    }
    mapping.map(vector.getResult(StepVectorOp::kSquares),
                sumOf(llvm::to_vector_of<Value>(squares)));
  }

  /// Of the layers on this rank.
  SmallVector<Value> ownLost() {
    SmallVector<Value> terms;
    for (Value term : vector->getOperands().back().getDefiningOp<SumOp>().getInputs())
      if (Value own = mapping.lookupOrNull(term))
        terms.push_back(own);
    return terms;
  }

  /// What the rank adds to a number of the vector for parameters that some of its stages count.
  SmallVector<Value> termsOf(unsigned place, ArrayRef<int> stages) {
    SmallVector<Value> terms;
    for (Value term : vector.getOperand(place).getDefiningOp<SumOp>().getInputs()) {
      int owner = ownerOf(term);
      if (owner == kNone)
        continue;
      int stage = facts.parameters[owner].countedAt;
      if (llvm::is_contained(stages, stage) && step.rankOf(stage) == rank)
        terms.push_back(mapping.lookup(term));
    }
    return terms;
  }

  Value sumOf(ArrayRef<Value> terms) {
    if (terms.empty())
      return zeroLike(vector.getResult(0));
    return SumOp::create(builder, vector.getLoc(), terms.front().getType(), terms);
  }

  LogicalResult cloneOwn(Operation *op) {
    bool isOthers = llvm::any_of(op->getOperands(), [&](Value v) { return !isOwn(ownerOf(v)); });
    if (isOthers)
      return success();
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        return op->emitOpError("reads the step vector before it is summed");
    builder.clone(*op, mapping);
    return success();
  }

  void addResults() {
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attributes;
    for (auto [i, value] :
         llvm::enumerate(step.getUpdate().front().getTerminator()->getOperands())) {
      if (!isOwn(ownerOf(getResultRole(step.getUpdate(), i))))
        continue;
      results.push_back(mapping.lookup(value));
      attributes.push_back(resultAttributes(step.getUpdate(), i));
    }
    finishFunction(function, results, attributes);
  }

  const StepGraph &step;
  const UpdateFacts &facts;
  int rank;
  ModuleOp module;
  llvm::StringMap<int> index; ///< of parameters, by name
  llvm::SmallDenseSet<int> own;
  DenseMap<Value, int> owners;
  StepVectorOp vector;
  Signature signature;
  SmallVector<Value> arguments;
  func::FuncOp function;
  OpBuilder builder{static_cast<MLIRContext *>(nullptr)};
  IRMapping mapping;
};

} // namespace

LogicalResult buildUpdate(const StepGraph &step, const UpdateFacts &facts, int rank,
                          ModuleOp module) {
  return UpdateCutter(step, facts, rank, module).build();
}

} // namespace dtc::stages
