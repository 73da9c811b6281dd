#include "Homes.h"
#include "MessageFunctions.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Lower/Passes.h"
#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/ForwardPasses.h"
#include "dtc/Schedule/FunctionCalls.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "dtc/Lower/Passes.h.inc"

namespace {

using graph::Passes;
using graph::RoleKind;

constexpr StringLiteral kClear = "clear";

bool covers(Passes all, Passes some) { return (all & some) == some; }

SmallVector<graph::RoleAttr> argumentRoles(func::FuncOp function) {
  SmallVector<graph::RoleAttr> roles;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    roles.push_back(graph::getArgRole(function, i));
  return roles;
}

/// Writes the steps of one rank of a schedule as calls, with what runs once a step around them.
class ScheduleWriter {
public:
  ScheduleWriter(ModuleOp module, const schedule::Schedule &schedule, int64_t rank)
      : module(module), schedule(schedule), rank(rank) {}

  LogicalResult run() {
    if (failed(sortFunctions()) || failed(buildClear()))
      return failure();
    MessageFunctions messages(module, schedule, perMicrobatch);
    if (failed(messages.prepare()))
      return failure();
    SmallVector<func::FuncOp> functions =
        llvm::to_vector(llvm::concat<func::FuncOp>(before, perMicrobatch, after));
    FailureOr<std::vector<schedule::StageFunction>> described = describe(functions);
    if (failed(described))
      return failure();
    // Other times would cost places and seconds, not correctness.
    schedule::Communication communication =
        schedule::communicationOf(schedule, schedule::evenTimes(schedule.shape));
    schedule::FunctionSteps steps =
        schedule::functionSteps(schedule, communication, rank, *described);
    if (!steps.error.empty())
      return module.emitError(steps.error);
    write(steps.steps, communication, messages, functions);
    writeRanks();
    return success();
  }

private:
  /// An update reports the step, also on a rank that trains nothing.
  static bool reports(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (graph::RoleAttr role = graph::getResultRole(function, i);
          role && role.getKind() == RoleKind::GradNorm)
        return true;
    return false;
  }

  /// What runs once a step comes after the microbatches if it takes what these give.
  LogicalResult sortFunctions() {
    DenseSet<Attribute> given;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!graph::getRuns(function))
        return function.emitError("doesn't say how often it runs (dtc.runs)");
      if (!graph::runsPerMicrobatch(function))
        continue;
      perMicrobatch.push_back(function);
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (graph::RoleAttr role = graph::getResultRole(function, i))
          given.insert(homeRole(role));
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      if (graph::runsPerMicrobatch(function))
        continue;
      bool takes = llvm::any_of(argumentRoles(function), [&](graph::RoleAttr role) {
        return role && given.contains(homeRole(role));
      });
      (takes || reports(function) ? after : before).push_back(function);
    }
    return success();
  }

  /// Makes @clear, whose results have the roles of what microbatches add to.
  LogicalResult buildClear() {
    llvm::MapVector<graph::RoleAttr, Type> sums;
    DenseMap<graph::RoleAttr, int64_t> calls; // that give it
    for (func::FuncOp function : perMicrobatch) {
      for (auto [role, type] :
           llvm::zip_equal(argumentRoles(function), function.getArgumentTypes()))
        if (graph::isSummedUp(role))
          sums.insert({role, type});
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (graph::RoleAttr role = graph::getResultRole(function, i);
            graph::isSummedUp(role) && !sums.contains(role) &&
            (calls[role] += schedule.shape.microbatches) > 1)
          return function.emitError("what several calls give needs an accumulator: ")
                 << role << ", given by " << calls[role];
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

  /// What each function makes of a chunk's passes, in the order of the functions.
  FailureOr<std::vector<schedule::StageFunction>> describe(ArrayRef<func::FuncOp> functions) {
    std::vector<schedule::StageFunction> result;
    for (func::FuncOp function : functions) {
      graph::RunsAttr runs = graph::getRuns(function);
      for (func::FuncOp other : functions.take_front(result.size()))
        if (graph::RunsAttr its = graph::getRuns(other);
            its.getChunk() == runs.getChunk() &&
            (its.getPasses() & runs.getPasses()) != Passes::None)
          return function.emitError("makes the same pass of a chunk as @") << other.getSymName();
      result.push_back({function.getSymName().str(), static_cast<int32_t>(runs.getChunk()),
                        covers(runs.getPasses(), Passes::Forward),
                        covers(runs.getPasses(), Passes::InputGrad),
                        covers(runs.getPasses(), Passes::WeightGrad)});
    }
    return result;
  }

  void write(ArrayRef<schedule::FunctionStep> steps, const schedule::Communication &communication,
             MessageFunctions &messages, ArrayRef<func::FuncOp> functions) {
    auto builder = OpBuilder::atBlockEnd(module.getBody());
    auto op = exec::ScheduleOp::create(builder, module.getLoc(), schedule.shape.microbatches);
    builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
    for (const schedule::FunctionStep &step : steps) {
      func::FuncOp callee = step.action == schedule::Step::Action::Call
                                ? functions[step.function]
                                : messages.functionOf(communication.messages[step.message],
                                                      step.action == schedule::Step::Action::Send);
      if (callee)
        exec::CallOp::create(builder, module.getLoc(), callee.getSymName(), step.microbatch,
                             step.slot, step.inbox, step.outbox);
    }
  }

  /// Of a pipeline's rank, its world ranks.
  void writeRanks() {
    for (auto mesh : module.getOps<dist::MeshOp>()) {
      auto devices = mesh->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
      if (!devices)
        continue;
      auto own = cast<DenseI64ArrayAttr>(devices[schedule.stage(rank, 0)]);
      SmallVector<int32_t> ranks(own.asArrayRef());
      module->setAttr(exec::ExecDialect::kRanks,
                      DenseI32ArrayAttr::get(module.getContext(), ranks));
    }
  }

  ModuleOp module;
  const schedule::Schedule &schedule;
  int64_t rank;
  SmallVector<func::FuncOp> before, perMicrobatch, after;
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
    schedule::ScheduleShape shape{*known, ranks, chunks, microbatches, kept};
    auto made = schedule::makeSchedule(shape, trains);
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
