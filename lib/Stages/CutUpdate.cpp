#include "CutUpdate.h"

#include "StageFunction.h"

#include "dtc/Dialect/Dist/StageOps.h"
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
    function = createFunction(module, "update", step.getUpdate().getLoc(), signature);
    setRuns(function, Cadence::Step);
    mapping.map(arguments, function.getArguments());
    builder = OpBuilder::atBlockEnd(&function.front());
    sumTiedGradients();
    for (Operation &op : step.getUpdate().front().without_terminator()) {
      if (&op == norm)
        sumStepVector();
      else if (failed(cloneOwn(&op)))
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

  /// What is about several parameters must be the sum of their squares: all else that
  /// one parameter's update reads is its own or everybody's.
  LogicalResult findOwners() {
    for (BlockArgument argument : step.getUpdate().getArguments())
      owners[argument] = ownerOf(getArgRole(step.getUpdate(), argument.getArgNumber()));
    for (Operation &op : step.getUpdate().front().without_terminator()) {
      auto sum = dyn_cast<SumOp>(op);
      if (sum && !norm && shapeOf(sum.getResult()).empty()) {
        norm = sum;
        continue; // everybody's from here on
      }
      int owner = kNone;
      for (Value operand : op.getOperands()) {
        auto known = owners.find(operand);
        int other = known == owners.end() ? kNone : known->second;
        if (owner != kNone && other != kNone && owner != other)
          return op.emitOpError("mixes parameters, and isn't the sum of their squares");
        owner = std::max(owner, other);
      }
      for (Value result : op.getResults())
        owners[result] = owner;
    }
    return norm ? success() : step.getUpdate().emitOpError("has no sum of squares of gradients");
  }

  bool isOwn(int owner) const { return owner == kNone || own.contains(owner); }
  int ownerOf(Value value) const {
    auto known = owners.find(value);
    return known == owners.end() ? kNone : known->second;
  }

  bool hasArgument(RoleAttr role) const {
    if (role.getKind() == RoleKind::Gradient)
      return llvm::is_contained(facts.parameters[ownerOf(role)].terms, rank);
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

  Operation *stageSum(ArrayRef<Value> values, ArrayRef<int64_t> stages) {
    return dist::StageSumOp::create(builder, step.getUpdate().getLoc(),
                                    TypeRange(ValueRange(values)), values,
                                    step.getMesh().getSymName(), stages);
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
      mapping.map(argument, stageSum(ownOrZero(argument), stages)->getResult(0));
    }
  }

  Value loss() const { return argumentOf(RoleKind::Loss); }
  Value count() const { return argumentOf(RoleKind::Scalar); }
  /// The loss, or the count.
  BlockArgument argumentOf(RoleKind kind) const {
    for (BlockArgument argument : step.getUpdate().getArguments()) {
      RoleAttr role = getArgRole(step.getUpdate(), argument.getArgNumber());
      if (role.getKind() == kind &&
          (kind != RoleKind::Scalar || role.getScalar() == ScalarKind::Count))
        return argument;
    }
    return {};
  }

  void sumStepVector() {
    SmallVector<Value> vector = {ownOrZero(loss()), ownOrZero(count())};
    for (int stage = 0; stage < step.numStages(); ++stage)
      vector.push_back(squaresOf(stage));
    Operation *sums = stageSum(vector, llvm::to_vector(llvm::seq<int64_t>(0, step.numRanks())));
    mapping.map(loss(), sums->getResult(0));
    mapping.map(count(), sums->getResult(1));
    SmallVector<Value> squares(sums->getResults().drop_front(2));
    auto total = SumOp::create(builder, norm.getLoc(), norm.getType(), squares);
    mapping.map(norm.getResult(), total.getResult());
  }

  /// Zero on other ranks.
  Value squaresOf(int stage) {
    SmallVector<Value> terms;
    for (Value term : norm.getInputs())
      if (int owner = ownerOf(term); owner != kNone && facts.parameters[owner].countedAt == stage &&
                                     step.rankOf(stage) == rank)
        terms.push_back(mapping.lookup(term));
    if (terms.empty())
      return zeroLike(norm.getResult());
    return SumOp::create(builder, norm.getLoc(), norm.getType(), terms);
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
  SumOp norm; ///< of squares
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
