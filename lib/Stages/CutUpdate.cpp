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

class PartFinder {
public:
  PartFinder(const StepGraph &step, const UpdateFacts &facts) : update(step.getUpdate()) {
    for (auto [i, parameter] : llvm::enumerate(facts.parameters))
      index[parameter.name] = static_cast<int>(i);
  }

  FailureOr<UpdateParts> find() {
    if (failed(findVector()))
      return failure();
    for (BlockArgument argument : update.getArguments()) {
      RoleAttr role = getArgRole(update, argument.getArgNumber());
      parts.arguments.push_back({role, ownerOf(role)});
      owners[argument] = parts.arguments.back().owner;
    }
    for (unsigned i = 0; i < update.getNumResults(); ++i) {
      RoleAttr role = getResultRole(update, i);
      parts.results.push_back({role, ownerOf(role)});
    }
    if (failed(findOwners()))
      return failure();
    parts.nonFinite = termsOf(StepVectorOp::kNonFinite);
    parts.squares = termsOf(StepVectorOp::kSquares);
    return std::move(parts);
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
      return UpdateParts::kNone;
    }
  }

  /// A number of the step vector, of all parameters.
  bool isTotal(Operation *op) const {
    return isa<SumOp>(op) && op->hasOneUse() && *op->user_begin() == parts.vector;
  }

  LogicalResult findVector() {
    for (auto op : update.front().getOps<StepVectorOp>())
      parts.vector = op;
    StepVectorOp vector = parts.vector;
    if (!vector)
      return update.emitOpError("has no step vector");
    SmallVector<unsigned> totals = {StepVectorOp::kNonFinite, StepVectorOp::kSquares};
    if (vector.getCountsLost())
      totals.push_back(vector.getNumOperands() - 1);
    for (unsigned place : totals)
      if (Operation *total = vector.getOperand(place).getDefiningOp(); !total || !isTotal(total))
        return vector.emitOpError("has a number that isn't a sum of its own: ") << place;
    return success();
  }

  int ownerOf(Value value) const {
    auto known = owners.find(value);
    return known == owners.end() ? UpdateParts::kNone : known->second;
  }

  /// What is about several parameters must be a number of the step vector: all else that one
  /// parameter's update reads is its own or everybody's.
  FailureOr<int> ownerOf(Operation &op) const {
    int owner = UpdateParts::kNone;
    for (Value operand : op.getOperands()) {
      int other = ownerOf(operand);
      if (owner != UpdateParts::kNone && other != UpdateParts::kNone && owner != other)
        return op.emitOpError("mixes parameters, and isn't a number of the step vector");
      owner = std::max(owner, other);
    }
    return owner;
  }

  LogicalResult findOwners() {
    for (Operation &op : update.front().without_terminator()) {
      if (isTotal(&op))
        continue; // everybody's, as the vector is
      FailureOr<int> owner = &op == parts.vector ? FailureOr<int>(UpdateParts::kNone) : ownerOf(op);
      if (failed(owner))
        return failure();
      for (Value result : op.getResults())
        owners[result] = *owner;
      parts.ops.push_back({&op, *owner});
    }
    return success();
  }

  SmallVector<UpdateParts::Term> termsOf(unsigned place) {
    SmallVector<UpdateParts::Term> terms;
    for (Value term : parts.vector.getOperand(place).getDefiningOp<SumOp>().getInputs())
      if (int owner = ownerOf(term); owner != UpdateParts::kNone)
        terms.push_back({term, owner});
    return terms;
  }

  func::FuncOp update;
  llvm::StringMap<int> index; ///< of parameters, by name
  DenseMap<Value, int> owners;
  UpdateParts parts;
};

class UpdateCutter {
public:
  UpdateCutter(const StepGraph &step, const UpdateFacts &facts, const UpdateParts &parts, int rank,
               ModuleOp module)
      : step(step), facts(facts), parts(parts), rank(rank), module(module), vector(parts.vector),
        own(facts.parameters.size()) {
    for (auto [i, parameter] : llvm::enumerate(facts.parameters))
      own[i] = llvm::is_contained(parameter.holders, rank);
  }

  LogicalResult build() {
    addArguments();
    function = createFunction(module, kUpdate, step.getUpdate().getLoc(), signature);
    setRuns(function, Cadence::Step);
    builder = OpBuilder::atBlockEnd(&function.front());
    mapArguments();
    sumTiedGradients();
    for (auto [op, owner] : parts.ops) {
      if (op == vector)
        sumStepVector();
      else if (isOwn(owner) && failed(cloneOwn(op)))
        return failure();
    }
    addResults();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    return success();
  }

private:
  bool isOwn(int owner) const { return owner == UpdateParts::kNone || own[owner]; }

  /// Of gradients it has terms instead.
  bool hasArgument(const UpdateParts::Role &argument) const {
    RoleAttr role = argument.role;
    if (lostRowsOf(role))
      return facts.countedOn.lookup(role.getName()) == rank;
    bool isCount = role.getKind() == RoleKind::Scalar && role.getScalar() == ScalarKind::Count;
    return role.getKind() == RoleKind::Loss || isCount ? rank == facts.lossRank
                                                       : isOwn(argument.owner);
  }

  void addArguments() {
    for (BlockArgument argument : step.getUpdate().getArguments()) {
      unsigned number = argument.getArgNumber();
      const UpdateParts::Role &part = parts.arguments[number];
      DictionaryAttr attributes = argumentAttributes(step.getUpdate(), number);
      if (part.role.getKind() == RoleKind::Gradient)
        addTerms(argument, part, attributes);
      else if (hasArgument(part))
        add(argument, attributes, kNoStage);
    }
  }

  void add(BlockArgument argument, DictionaryAttr attributes, int stage) {
    arguments.push_back({argument, stage});
    signature.add(argument.getType(), attributes);
  }

  /// Of a gradient, those of this rank's stages.
  void addTerms(BlockArgument gradient, const UpdateParts::Role &part, DictionaryAttr attributes) {
    ArrayRef<int> stages = facts.parameters[part.owner].stages;
    for (int stage : stages)
      if (step.rankOf(stage) == rank)
        add(gradient, withRole(attributes, step.termRole(part.role, stages, stage)), stage);
  }

  void mapArguments() {
    for (auto [argument, own] : llvm::zip_equal(arguments, function.getArguments()))
      if (argument.stage == kNoStage)
        mapping.map(argument.whole, own);
      else
        terms[{argument.whole, argument.stage}] = own;
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
    for (auto [number, argument] : llvm::enumerate(step.getUpdate().getArguments())) {
      const auto &[role, owner] = parts.arguments[number];
      if (role.getKind() == RoleKind::Gradient && own[owner])
        mapping.map(argument, sumTerms(argument, facts.parameters[owner]));
    }
  }

  Value sumTerms(Value gradient, const TrainedParameter &parameter) {
    Value total;
    for (const schedule::SumRound &round : parameter.rounds) {
      if (!llvm::is_contained(round.ranks, rank))
        continue;
      const bool isFirst = round.ranks.front() == rank;
      Value given = isFirst ? total : Value();
      for (int64_t stage : round.stages)
        if (step.rankOf(static_cast<int>(stage)) == rank) {
          Value term = terms.lookup({gradient, static_cast<int>(stage)});
          given = given ? sumInOrder(given, term) : term;
        }
      if (!given)
        given = zeroLike(gradient);
      // Rank r has stage r.
      total = round.ranks.size() == 1 ? given
                                      : stageSum(given, round.ranks, parameter.apart)->getResult(0);
    }
    return total;
  }

  /// The same as a sum of two ranks: what pends is completed before.
  Value sumInOrder(Value first, Value second) {
    SmallVector<Value> complete;
    for (Value term : {first, second})
      complete.push_back(stageSum(term, {int64_t(rank)}, /*apart=*/false)->getResult(0));
    return SumOp::create(builder, first.getLoc(), first.getType(), complete);
  }

  void sumStepVector() {
    SmallVector<Value> numbers(StepVectorOp::kSquares);
    for (unsigned place : {StepVectorOp::kLoss, StepVectorOp::kCount})
      numbers[place] = ownOrZero(vector.getOperand(place));
    SmallVector<Value> nonFinite;
    for (const UpdateParts::Term &term : parts.nonFinite)
      if (step.rankOf(stageOf(term)) == rank)
        nonFinite.push_back(mapping.lookup(term.value));
    numbers[StepVectorOp::kNonFinite] = sumOf(nonFinite);
    SmallVector<SmallVector<Value>> squares(step.numStages());
    for (const UpdateParts::Term &term : parts.squares)
      if (int stage = stageOf(term); step.rankOf(stage) == rank)
        squares[stage].push_back(mapping.lookup(term.value));
    for (ArrayRef<Value> ofStage : squares)
      numbers.push_back(sumOf(ofStage));
    if (vector.getCountsLost())
      numbers.push_back(sumOf(ownLost()));
    auto own = StepVectorOp::create(builder, vector.getLoc(), TypeRange(ValueRange(numbers)),
                                    ValueRange(numbers), vector.getCountsLost());
    Operation *sums =
        stageSum(llvm::to_vector_of<Value>(own.getResults()),
                 llvm::to_vector(llvm::seq<int64_t>(0, step.numRanks())), facts.apart);
    for (unsigned place = 0; place < StepVectorOp::kSquares; ++place)
      mapping.map(vector.getResult(place), sums->getResult(place));
    auto totals = sums->getResults().drop_front(StepVectorOp::kSquares);
    if (vector.getCountsLost()) {
      mapping.map(vector->getResults().back(), totals.back());
      totals = totals.drop_back();
    }
    mapping.map(vector.getResult(StepVectorOp::kSquares), sumOf(llvm::to_vector_of<Value>(totals)));
  }

  /// Of the layers on this rank.
  SmallVector<Value> ownLost() {
    SmallVector<Value> terms;
    for (Value term : vector->getOperands().back().getDefiningOp<SumOp>().getInputs())
      if (Value own = mapping.lookupOrNull(term))
        terms.push_back(own);
    return terms;
  }

  /// That counts the term's parameter.
  int stageOf(const UpdateParts::Term &term) const {
    return facts.parameters[term.owner].stages.front();
  }

  Value sumOf(ArrayRef<Value> terms) {
    if (terms.empty())
      return zeroLike(vector.getResult(0));
    return SumOp::create(builder, vector.getLoc(), terms.front().getType(), terms);
  }

  LogicalResult cloneOwn(Operation *op) {
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
      if (!isOwn(parts.results[i].owner))
        continue;
      results.push_back(mapping.lookup(value));
      attributes.push_back(resultAttributes(step.getUpdate(), i));
    }
    finishFunction(function, results, attributes);
  }

  const StepGraph &step;
  const UpdateFacts &facts;
  const UpdateParts &parts;
  int rank;
  ModuleOp module;
  StepVectorOp vector;
  llvm::SmallVector<bool> own; ///< by parameter
  Signature signature;
  /// Of the whole update, and a stage that has a term of it.
  static constexpr int kNoStage = -1;
  struct Argument {
    BlockArgument whole;
    int stage;
  };
  SmallVector<Argument> arguments;
  DenseMap<std::pair<Value, int>, Value> terms; ///< of gradients, by stage
  func::FuncOp function;
  OpBuilder builder{static_cast<MLIRContext *>(nullptr)};
  IRMapping mapping;
};

} // namespace

FailureOr<UpdateParts> UpdateParts::of(const StepGraph &step, const UpdateFacts &facts) {
  return PartFinder(step, facts).find();
}

LogicalResult buildUpdate(const StepGraph &step, const UpdateFacts &facts, const UpdateParts &parts,
                          int rank, ModuleOp module) {
  return UpdateCutter(step, facts, parts, rank, module).build();
}

} // namespace dtc::stages
