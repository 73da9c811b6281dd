#include "Homes.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Schedule/Descriptor.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "dtc/Lower/Passes.h.inc"

namespace {

using graph::Passes;
using graph::RoleKind;

constexpr StringLiteral kClear = "clear";

Passes passesOf(schedule::Pass pass) {
  switch (pass) {
  case schedule::Pass::Forward:
    return Passes::Forward;
  case schedule::Pass::Backward:
    return Passes::Backward;
  case schedule::Pass::InputGrad:
    return Passes::InputGrad;
  case schedule::Pass::WeightGrad:
    return Passes::WeightGrad;
  }
  return Passes::None;
}

bool covers(Passes all, Passes some) { return (all & some) == some; }

SmallVector<graph::RoleAttr> argumentRoles(func::FuncOp function) {
  SmallVector<graph::RoleAttr> roles;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    roles.push_back(graph::getArgRole(function, i));
  return roles;
}

/// Writes the calls of one rank's list of a schedule, with what runs once a step around them.
class ScheduleWriter {
public:
  ScheduleWriter(ModuleOp module, const schedule::Schedule &schedule, int64_t rank)
      : module(module), calls(schedule.calls[rank]), microbatches(schedule.shape.microbatches) {}

  LogicalResult run() {
    if (failed(sortFunctions()) || failed(buildClear()))
      return failure();
    auto builder = OpBuilder::atBlockEnd(module.getBody());
    auto op = exec::ScheduleOp::create(builder, module.getLoc(), microbatches);
    builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
    for (func::FuncOp function : before)
      addCall(builder, function, {});
    if (failed(addList(builder)))
      return failure();
    for (func::FuncOp function : after)
      addCall(builder, function, {});
    return success();
  }

private:
  /// What runs once a step comes after the microbatches if it takes what these give.
  LogicalResult sortFunctions() {
    DenseSet<Attribute> given;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!graph::getRuns(function))
        return function.emitError("doesn't say how often it runs (dtc.runs)");
      if (!graph::runsPerMicrobatch(function))
        continue;
      perMicrobatch.push_back(function);
      all = all | graph::getRuns(function).getPasses();
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (graph::RoleAttr role = graph::getResultRole(function, i))
          given.insert(homeRole(role));
      for (graph::RoleAttr role : argumentRoles(function))
        if (role && scopeOf(role.getKind()) >= Scope::Inbox)
          return function.emitError("messages have no place in a list of passes: ") << role;
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      if (graph::runsPerMicrobatch(function))
        continue;
      bool takes = llvm::any_of(argumentRoles(function), [&](graph::RoleAttr role) {
        return role && given.contains(homeRole(role));
      });
      (takes ? after : before).push_back(function);
    }
    return success();
  }

  /// Makes @clear, whose results have the roles of what microbatches add to.
  LogicalResult buildClear() {
    llvm::MapVector<graph::RoleAttr, Type> sums;
    for (func::FuncOp function : perMicrobatch) {
      size_t known = sums.size();
      for (auto [role, type] :
           llvm::zip_equal(argumentRoles(function), function.getArgumentTypes()))
        if (role && (role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Loss))
          sums.insert({role, type});
      bool adds = covers(graph::getRuns(function).getPasses(), Passes::WeightGrad);
      if (microbatches > 1 && adds && sums.size() == known)
        return function.emitError("more than one microbatch needs accumulators: ")
               << microbatches;
    }
    if (sums.empty())
      return success();
    func::FuncOp first = perMicrobatch.front();
    OpBuilder builder(first);
    SmallVector<Type> types = llvm::to_vector(llvm::make_second_range(sums));
    auto clear = func::FuncOp::create(builder, first.getLoc(), kClear,
                                      builder.getFunctionType({}, types));
    if (first->hasAttr(dist::DistDialect::kLocal))
      clear->setAttr(dist::DistDialect::kLocal, builder.getUnitAttr());
    graph::setRuns(clear, graph::Cadence::Step);
    graph::setResultAttrs(
        clear, graph::GraphDialect::kRole,
        llvm::map_to_vector(sums, [](auto &sum) -> Attribute { return sum.first; }));
    builder.setInsertionPointToStart(clear.addEntryBlock());
    SmallVector<Value> zeros = llvm::map_to_vector(types, [&](Type type) -> Value {
      return exec::ZeroOp::create(builder, first.getLoc(), type);
    });
    func::ReturnOp::create(builder, first.getLoc(), zeros);
    before.push_back(clear);
    return success();
  }

  void addCall(OpBuilder &builder, func::FuncOp function, const schedule::Call &call) {
    exec::CallOp::create(builder, module.getLoc(), function.getSymName(), call.microbatch,
                         call.slot);
  }

  /// The function that makes the pass; null after an error.
  func::FuncOp find(const schedule::Call &call) {
    func::FuncOp found;
    for (func::FuncOp function : perMicrobatch) {
      graph::RunsAttr runs = graph::getRuns(function);
      if (runs.getChunk() != call.chunk || !covers(runs.getPasses(), passesOf(call.pass)))
        continue;
      if (found) {
        function.emitError("makes the same pass of a chunk as @") << found.getSymName();
        return nullptr;
      }
      found = function;
    }
    if (!found)
      module.emitError("no function makes the pass ")
          << graph::textOf(passesOf(call.pass)) << " of chunk " << call.chunk;
    return found;
  }

  /// A function may make several passes at once, which must follow one another directly.
  LogicalResult addList(OpBuilder &builder) {
    for (size_t i = 0; i < calls.size(); ++i) {
      const schedule::Call &call = calls[i];
      if ((all & passesOf(call.pass)) == Passes::None)
        continue; // what only infers has no backward pass
      func::FuncOp function = find(call);
      if (!function)
        return failure();
      addCall(builder, function, call);
      Passes rest = graph::getRuns(function).getPasses() & ~passesOf(call.pass);
      while (rest != Passes::None) {
        bool follows = ++i < calls.size() && calls[i].chunk == call.chunk &&
                       calls[i].microbatch == call.microbatch &&
                       covers(rest, passesOf(calls[i].pass));
        if (!follows)
          return function.emitError("makes passes at once that lie apart in the schedule: ")
                 << graph::textOf(graph::getRuns(function).getPasses());
        rest = rest & ~passesOf(calls[i].pass);
      }
    }
    return success();
  }

  ModuleOp module;
  const std::vector<schedule::Call> &calls;
  int64_t microbatches;
  SmallVector<func::FuncOp> before, perMicrobatch, after;
  Passes all = Passes::None; ///< that any function makes
};

struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  LogicalResult run() {
    ModuleOp module = getOperation();
    if (microbatches < 1)
      return module.emitError("number of microbatches must be positive, got: ")
             << microbatches.getValue();
    auto known = schedule::scheduleFromName(kind);
    if (!known)
      return module.emitError("unknown schedule: ") << kind.getValue();
    schedule::ScheduleShape shape{*known, ranks, chunks, microbatches};
    auto made = schedule::makeSchedule(shape);
    if (!made)
      return module.emitError("no such schedule: ") << schedule::unsupported(shape);
    if (rank < 0 || rank >= ranks)
      return module.emitError("the pipeline has no such rank: ") << rank.getValue();
    return ScheduleWriter(module, *made, rank).run();
  }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace dtc::lower
