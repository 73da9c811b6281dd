// Sums of gradients over ranks, in the call that adds to them last instead of in the update.
#include "Homes.h"
#include "InPlace.h"

#include "dtc/Dialect/Dist/Groups.h"
#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Schedule/GradientBuckets.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

#include <numeric>

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_SUMGRADIENTSEARLY
#include "dtc/Lower/Passes.h.inc"

namespace {

/// A gradient that the update sums over ranks before it does anything else with it. All ranks get
/// the sum, or each its part.
struct PendingSum {
  graph::RoleAttr role;
  Operation *reduce;
  unsigned operand; ///< of the reduction
  BlockArgument argument() const;
};

/// What a value is a view of, or with zeros behind it; null: it is neither.
Value within(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<graph::ReshapeOp>(op) || putsZerosBehind(op)) ? op->getOperand(0) : Value();
}

Value innermost(Value value) {
  while (Value inner = within(value))
    value = inner;
  return value;
}

/// The same view of another value, with as many zeros behind it.
Value formedLike(OpBuilder &builder, Value form, Value value) {
  Value inner = within(form);
  if (!inner)
    return value;
  IRMapping mapping;
  mapping.map(inner, formedLike(builder, inner, value));
  return builder.clone(*form.getDefiningOp(), mapping)->getResult(0);
}

BlockArgument PendingSum::argument() const {
  return cast<BlockArgument>(innermost(reduce->getOperand(operand)));
}

/// Whether a sum alone reads an argument of its function. What it scatters is flattened before, and
/// padded.
bool isOnlySummed(OpOperand &operand) {
  Value value = operand.get();
  bool isAlone = value.hasOneUse();
  while (Value inner = isa<dist::ReduceScatterOp>(operand.getOwner()) ? within(value) : Value()) {
    value = inner;
    isAlone &= value.hasOneUse();
  }
  return isAlone && isa<BlockArgument>(value);
}

/// Whether the op gives all ranks the sums of its operands, or each its parts of them.
bool isSum(Operation *op) {
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
    return reduce.getKind() == graph::ReduceKind::Sum;
  auto scatter = dyn_cast<dist::ReduceScatterOp>(op);
  return scatter && scatter.getKind() == graph::ReduceKind::Sum && scatter.getDim() == 0;
}

/// The same sum of other operands.
Operation *sumLike(OpBuilder &builder, Operation *sum, ValueRange operands, TypeRange types) {
  OperationState state(sum->getLoc(), sum->getName(), operands, types);
  state.propertiesAttr = sum->getPropertiesAsAttribute();
  return builder.create(state);
}

/// The result of a function that has a role, or -1.
int resultOf(func::FuncOp function, graph::RoleAttr role) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (graph::getResultRole(function, i) == role)
      return static_cast<int>(i);
  return -1;
}

int64_t ranksOf(Operation *sum) {
  auto meshOp = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(sum, dist::meshOf(sum));
  sharding::Mesh mesh = dist::toMesh(meshOp);
  return mesh.size(*dist::toAxes(dist::axesOf(sum), mesh));
}

SmallVector<StringAttr> axesOfDims(dist::ShardingAttr sharding) {
  SmallVector<StringAttr> names;
  for (dist::AxesAttr dim : sharding.getDims())
    llvm::append_range(names, dim.getNames());
  return names;
}

/// The sharding of a sum, or of its parts, which lie flattened one after another.
dist::ShardingAttr summed(dist::ShardingAttr sharding, Operation *sum) {
  MLIRContext *context = sharding.getContext();
  auto none = dist::AxesAttr::get(context, {});
  if (isa<dist::AllReduceOp>(sum))
    return dist::ShardingAttr::get(context, sharding.getMesh(), sharding.getDims(), none,
                                   sharding.getMax(), sharding.getMin());
  SmallVector<StringAttr> names = axesOfDims(sharding), pending;
  ArrayRef<StringAttr> over = dist::axesOf(sum).getNames();
  llvm::append_range(names, over);
  llvm::copy_if(sharding.getSum().getNames(), std::back_inserter(pending),
                [&](StringAttr name) { return !llvm::is_contained(over, name); });
  return dist::ShardingAttr::get(context, sharding.getMesh(), dist::AxesAttr::get(context, names),
                                 dist::AxesAttr::get(context, pending), none, none);
}

/// That of all shards one after another.
dist::ShardingAttr flattened(dist::ShardingAttr sharding) {
  MLIRContext *context = sharding.getContext();
  return dist::ShardingAttr::get(context, sharding.getMesh(),
                                 dist::AxesAttr::get(context, axesOfDims(sharding)),
                                 sharding.getSum(), sharding.getMax(), sharding.getMin());
}

/// What is said of a gradient once it is summed. A part stays at the beginning of its place.
DictionaryAttr summed(DictionaryAttr attributes, Type type, Operation *sum) {
  NamedAttrList list(attributes);
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(list.get(dist::DistDialect::kSharding));
  if (isa<dist::ReduceScatterOp>(sum) && !list.get(exec::kRoom)) {
    auto tensor = cast<RankedTensorType>(type);
    list.set(exec::kRoom, TypeAttr::get(RankedTensorType::get(tensor.getShape(),
                                                              tensor.getElementType(), sharding)));
  }
  if (sharding)
    list.set(dist::DistDialect::kSharding, summed(sharding, sum));
  return list.getDictionary(sum->getContext());
}

/// Arguments and results have the types of the body's.
void updateType(func::FuncOp function) {
  Block &body = function.getBody().front();
  function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                     body.getTerminator()->getOperandTypes()));
}

/// Gradients of one call, which it sums in buckets as it makes them.
class CallSums {
public:
  CallSums(func::FuncOp function, ArrayRef<PendingSum> sums) : function(function), sums(sums) {}

  /// In the order in which the function makes them.
  void run() {
    llvm::MapVector<Key, SmallVector<Made>> alike;
    for (const Made &each : findMade())
      alike[{each.sum->reduce->getName(), each.sum->reduce->getPropertiesAsAttribute(),
             getElementTypeOrSelf(each.returned->get())}]
          .push_back(each);
    for (const auto &[key, gradients] : alike)
      sumInBuckets(gradients);
  }

private:
  /// A returned gradient.
  struct Made {
    OpOperand *returned;
    const PendingSum *sum;
  };
  using Key = std::tuple<OperationName, Attribute, Type>;

  SmallVector<Made> findMade() {
    Operation *terminator = function.getBody().front().getTerminator();
    SmallVector<Made> made;
    for (const PendingSum &sum : sums) {
      auto index = static_cast<unsigned>(resultOf(function, sum.role));
      made.push_back({&terminator->getOpOperand(index), &sum});
    }
    llvm::stable_sort(made, [](const Made &a, const Made &b) {
      Operation *first = a.returned->get().getDefiningOp();
      Operation *second = b.returned->get().getDefiningOp();
      return first != second && first->isBeforeInBlock(second);
    });
    return made;
  }

  void sumInBuckets(ArrayRef<Made> gradients) {
    SmallVector<int64_t> bytes;
    for (const Made &each : gradients)
      bytes.push_back(static_cast<int64_t>(bytesOf(each.returned->get().getType())));
    auto all = double(std::accumulate(bytes.begin(), bytes.end(), int64_t(0)));
    Operation *reduce = gradients.front().sum->reduce;
    auto count = static_cast<int64_t>(gradients.size());
    // Of parts there are as many as are priced.
    bool isOfParts =
        isa<dist::ReduceScatterOp>(reduce) ||
        function.getResultAttr(gradients.front().returned->getOperandNumber(), exec::kRoom);
    int64_t calls = isOfParts ? std::min(count, schedule::countBuckets(all, ranksOf(reduce)))
                              : schedule::countGradientSums(count, all, ranksOf(reduce));
    size_t begin = 0;
    for (size_t end : schedule::splitGradients(bytes, calls)) {
      sum(gradients.slice(begin, end - begin));
      begin = end;
    }
  }

  void sum(ArrayRef<Made> bucket) {
    Operation *like = bucket.front().sum->reduce;
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfterValue(bucket.back().returned->get());
    SmallVector<Value> values;
    SmallVector<Type> types;
    for (const Made &each : bucket) {
      Value summed = each.sum->reduce->getOperand(each.sum->operand);
      values.push_back(formedLike(builder, summed, each.returned->get()));
      types.push_back(each.sum->reduce->getResult(each.sum->operand).getType());
    }
    Operation *reduce = sumLike(builder, like, values, types);
    for (auto [each, result] : llvm::zip_equal(bucket, reduce->getResults())) {
      unsigned index = each.returned->getOperandNumber();
      function.setResultAttrs(
          index, summed(function.getResultAttrDict(index), each.returned->get().getType(), like));
      each.returned->set(result);
    }
    updateType(function);
  }

  func::FuncOp function;
  ArrayRef<PendingSum> sums;
};

class StepSums {
public:
  StepSums(ModuleOp module, exec::ScheduleOp schedule)
      : module(module), symbols(module), schedule(schedule) {}

  /// What is scattered may be summed over further ranks, as parts.
  void run() {
    while (moveSums()) {
    }
  }

private:
  bool moveSums() {
    sums.clear();
    byCall.clear();
    shrunk.clear();
    for (auto function : module.getOps<func::FuncOp>())
      if (!graph::runsPerMicrobatch(function))
        findSums(function);
    findCalls();
    for (auto &[call, sums] : byCall)
      llvm::for_each(sums, [&](const PendingSum &sum) { makeRoom(sum); });
    for (auto &[call, sums] : byCall) {
      CallSums(functionOfCall(cast<exec::CallOp>(call)), sums).run();
      for (const PendingSum &sum : sums)
        drop(sum);
    }
    for (Operation *reduce : shrunk)
      removeDropped(reduce);
    return !byCall.empty();
  }

  void findSums(func::FuncOp function) {
    for (Operation &op : function.getBody().front())
      for (OpOperand &operand : op.getOpOperands())
        if (isSum(&op) && isOnlySummed(operand)) {
          auto argument = cast<BlockArgument>(innermost(operand.get()));
          graph::RoleAttr role = graph::getArgRole(function, argument.getArgNumber());
          if (role && role.getKind() == graph::RoleKind::Gradient)
            sums.push_back({role, &op, operand.getOperandNumber()});
        }
  }

  /// Finds for each gradient the call that adds to it last.
  void findCalls() {
    SmallVector<exec::CallOp> calls(schedule.getOps<exec::CallOp>());
    for (const PendingSum &sum : sums)
      for (exec::CallOp call : llvm::reverse(calls)) {
        auto function = symbols.lookup<func::FuncOp>(call.getCallee());
        if (!function || !graph::runsPerMicrobatch(function))
          continue;
        int result = resultOf(function, sum.role);
        if (result < 0)
          continue;
        Operation *terminator = function.getBody().front().getTerminator();
        if (terminator->getOperand(static_cast<unsigned>(result)).getDefiningOp())
          byCall[call].push_back(sum);
        break;
      }
  }

  /// Where a gradient is padded before it is scattered, its place has room for the zeros.
  void makeRoom(const PendingSum &sum) {
    auto padded = cast<RankedTensorType>(sum.reduce->getOperand(sum.operand).getType());
    BlockArgument argument = sum.argument();
    if (bytesOf(padded) <= bytesOf(argument.getType()))
      return;
    auto update = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto sharding = update.getArgAttrOfType<dist::ShardingAttr>(argument.getArgNumber(),
                                                                dist::DistDialect::kSharding);
    auto room = TypeAttr::get(RankedTensorType::get(padded.getShape(), padded.getElementType(),
                                                    sharding ? flattened(sharding) : sharding));
    for (auto function : module.getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (graph::getArgRole(function, i) == sum.role)
          function.setArgAttr(i, exec::kRoom, room);
      if (int result = resultOf(function, sum.role); result >= 0)
        function.setResultAttr(static_cast<unsigned>(result), exec::kRoom, room);
    }
  }

  /// A function that no other call has: its own, or a copy, which has the same kernels.
  func::FuncOp functionOfCall(exec::CallOp call) {
    auto function = symbols.lookup<func::FuncOp>(call.getCallee());
    bool isShared = llvm::any_of(schedule.getOps<exec::CallOp>(), [&](exec::CallOp other) {
      return other != call && other.getCallee() == call.getCallee();
    });
    if (!isShared)
      return function;
    func::FuncOp last = function.clone();
    last.setSymName((function.getSymName() + "_last").str());
    exec::setLastOf(last, function);
    symbols.insert(last, std::next(Block::iterator(function)));
    call.setCalleeAttr(FlatSymbolRefAttr::get(last));
    return last;
  }

  /// The argument comes as a sum.
  void drop(const PendingSum &sum) {
    BlockArgument argument = sum.argument();
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    const unsigned number = argument.getArgNumber();
    function.setArgAttrs(number,
                         summed(function.getArgAttrDict(number), argument.getType(), sum.reduce));
    Value result = sum.reduce->getResult(sum.operand);
    result.replaceAllUsesWith(argument);
    argument.setType(result.getType());
    updateType(function);
    shrunk.insert(sum.reduce);
  }

  static void removeDropped(Operation *reduce) {
    SmallVector<Value> operands, results, dropped;
    for (auto [operand, result] : llvm::zip_equal(reduce->getOperands(), reduce->getResults())) {
      (result.use_empty() ? dropped : operands).push_back(operand);
      if (!result.use_empty())
        results.push_back(result);
    }
    if (!operands.empty()) {
      OpBuilder builder(reduce);
      Operation *rest = sumLike(builder, reduce, operands, TypeRange(ValueRange(results)));
      for (auto [before, after] : llvm::zip_equal(results, rest->getResults()))
        before.replaceAllUsesWith(after);
    }
    reduce->erase();
    for (Value value : dropped)
      while (Value inner = within(value)) {
        if (!value.use_empty())
          break;
        value.getDefiningOp()->erase();
        value = inner;
      }
  }

  ModuleOp module;
  SymbolTable symbols;
  exec::ScheduleOp schedule;
  SmallVector<PendingSum> sums;
  llvm::MapVector<Operation *, SmallVector<PendingSum>> byCall;
  llvm::SetVector<Operation *> shrunk;
};

struct SumGradientsEarly : impl::SumGradientsEarlyBase<SumGradientsEarly> {
  void runOnOperation() override {
    SmallVector<exec::ScheduleOp> schedules(getOperation().getOps<exec::ScheduleOp>());
    for (exec::ScheduleOp schedule : schedules)
      StepSums(getOperation(), schedule).run();
  }
};

} // namespace
} // namespace dtc::lower
