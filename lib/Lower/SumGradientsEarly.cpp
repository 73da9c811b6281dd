// Sums of gradients over ranks, in the call that adds to them last instead of in the update.
#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Schedule/GradientBuckets.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_SUMGRADIENTSEARLY
#include "dtc/Lower/Passes.h.inc"

namespace {

/// A gradient that the update sums over ranks before it does anything else with it.
struct PendingSum {
  graph::RoleAttr role;
  dist::AllReduceOp reduce;
  unsigned operand; ///< of the reduction
};

int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

/// The result of a function that has a role, or -1.
int resultOf(func::FuncOp function, graph::RoleAttr role) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (graph::getResultRole(function, i) == role)
      return static_cast<int>(i);
  return -1;
}

int64_t ranksOf(dist::AllReduceOp reduce) {
  auto meshOp = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(reduce, reduce.getMeshAttr());
  sharding::Mesh mesh = dist::toMesh(meshOp);
  return mesh.size(*dist::toAxes(reduce.getAxesAttr(), mesh));
}

/// A sharding of which nothing pends over axes to be summed.
Attribute summed(Attribute attr) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  if (!sharding)
    return attr;
  auto none = dist::AxesAttr::get(sharding.getContext(), {});
  return dist::ShardingAttr::get(sharding.getContext(), sharding.getMesh(), sharding.getDims(),
                                 none, sharding.getMax(), sharding.getMin());
}

/// Gradients of one call, which it sums in buckets as it makes them.
class CallSums {
public:
  CallSums(func::FuncOp function, ArrayRef<PendingSum> sums) : function(function), sums(sums) {}

  /// In the order in which the function makes them.
  void run() {
    llvm::MapVector<Key, SmallVector<Made>> alike;
    for (const Made &each : findMade())
      alike[{each.sum->reduce->getPropertiesAsAttribute(),
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
  using Key = std::pair<Attribute, Type>;

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
      bytes.push_back(bytesOf(each.returned->get()));
    auto all = double(std::accumulate(bytes.begin(), bytes.end(), int64_t(0)));
    int64_t calls = schedule::countGradientSums(static_cast<int64_t>(gradients.size()), all,
                                                ranksOf(gradients.front().sum->reduce));
    size_t begin = 0;
    for (size_t end : schedule::splitGradients(bytes, calls)) {
      sum(gradients.slice(begin, end - begin));
      begin = end;
    }
  }

  void sum(ArrayRef<Made> bucket) {
    SmallVector<Value> values;
    for (const Made &each : bucket)
      values.push_back(each.returned->get());
    dist::AllReduceOp like = bucket.front().sum->reduce;
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfterValue(values.back());
    auto reduce = dist::AllReduceOp::create(builder, like.getLoc(), TypeRange(ValueRange(values)),
                                            values, like.getMesh(), like.getAxes(), like.getKind());
    StringRef name = dist::DistDialect::kSharding;
    for (auto [each, result] : llvm::zip_equal(bucket, reduce.getOutputs())) {
      each.returned->set(result);
      unsigned index = each.returned->getOperandNumber();
      if (Attribute sharding = function.getResultAttr(index, name))
        function.setResultAttr(index, name, summed(sharding));
    }
  }

  func::FuncOp function;
  ArrayRef<PendingSum> sums;
};

class StepSums {
public:
  StepSums(ModuleOp module, exec::ScheduleOp schedule)
      : module(module), symbols(module), schedule(schedule) {}

  void run() {
    for (auto function : module.getOps<func::FuncOp>())
      if (!graph::runsPerMicrobatch(function))
        findSums(function);
    findCalls();
    for (auto &[call, sums] : byCall) {
      CallSums(functionOfCall(cast<exec::CallOp>(call)), sums).run();
      for (const PendingSum &sum : sums)
        drop(sum);
    }
    for (dist::AllReduceOp reduce : shrunk)
      removeDropped(reduce);
  }

private:
  void findSums(func::FuncOp function) {
    for (auto reduce : function.getBody().front().getOps<dist::AllReduceOp>())
      for (auto [i, operand] : llvm::enumerate(reduce.getInputs())) {
        auto argument = dyn_cast<BlockArgument>(operand);
        if (reduce.getKind() != graph::ReduceKind::Sum || !argument || !argument.hasOneUse())
          continue;
        graph::RoleAttr role = graph::getArgRole(function, argument.getArgNumber());
        if (role && role.getKind() == graph::RoleKind::Gradient)
          sums.push_back({role, reduce, static_cast<unsigned>(i)});
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
  void drop(PendingSum sum) {
    auto argument = cast<BlockArgument>(sum.reduce.getInputs()[sum.operand]);
    sum.reduce->getResult(sum.operand).replaceAllUsesWith(argument);
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    StringRef name = dist::DistDialect::kSharding;
    if (Attribute sharding = function.getArgAttr(argument.getArgNumber(), name))
      function.setArgAttr(argument.getArgNumber(), name, summed(sharding));
    shrunk.insert(sum.reduce);
  }

  static void removeDropped(dist::AllReduceOp reduce) {
    SmallVector<Value> operands, results;
    for (auto [operand, result] : llvm::zip_equal(reduce.getInputs(), reduce.getOutputs()))
      if (!result.use_empty()) {
        operands.push_back(operand);
        results.push_back(result);
      }
    if (!operands.empty()) {
      OpBuilder builder(reduce);
      auto rest =
          dist::AllReduceOp::create(builder, reduce.getLoc(), TypeRange(ValueRange(operands)),
                                    operands, reduce.getMesh(), reduce.getAxes(), reduce.getKind());
      for (auto [before, after] : llvm::zip_equal(results, rest.getOutputs()))
        before.replaceAllUsesWith(after);
    }
    reduce.erase();
  }

  ModuleOp module;
  SymbolTable symbols;
  exec::ScheduleOp schedule;
  SmallVector<PendingSum> sums;
  llvm::MapVector<Operation *, SmallVector<PendingSum>> byCall;
  llvm::SetVector<dist::AllReduceOp> shrunk;
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
