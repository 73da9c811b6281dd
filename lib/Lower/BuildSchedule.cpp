#include "StepFunctions.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Lower/Passes.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "dtc/Lower/Passes.h.inc"

namespace {

/// Arguments that a microbatch adds to.
SmallVector<unsigned> accumulators(func::FuncOp function) {
  SmallVector<unsigned> found;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    graph::RoleAttr role = graph::getArgRole(function, i);
    if (role && (role.getKind() == graph::RoleKind::Gradient ||
                 role.getKind() == graph::RoleKind::Loss))
      found.push_back(i);
  }
  return found;
}

/// @clear, whose results have the roles of `function`'s accumulators.
void buildClear(func::FuncOp function, ArrayRef<unsigned> indices) {
  OpBuilder builder(function);
  Location loc = function.getLoc();
  SmallVector<Type> types = llvm::map_to_vector(
      indices, [&](unsigned index) { return function.getArgumentTypes()[index]; });
  auto clear = func::FuncOp::create(builder, loc, kClear, builder.getFunctionType({}, types));
  if (function->hasAttr(dist::DistDialect::kLocal))
    clear->setAttr(dist::DistDialect::kLocal, builder.getUnitAttr());
  graph::setResultAttrs(clear, graph::GraphDialect::kRole,
                        llvm::map_to_vector(indices, [&](unsigned index) -> Attribute {
                          return graph::getArgRole(function, index);
                        }));
  builder.setInsertionPointToStart(clear.addEntryBlock());
  SmallVector<Value> zeros = llvm::map_to_vector(
      types, [&](Type type) -> Value { return exec::ZeroOp::create(builder, loc, type); });
  func::ReturnOp::create(builder, loc, zeros);
}

void buildScheduleOp(ModuleOp module, const ScheduleBuilder &schedule) {
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto op = exec::ScheduleOp::create(builder, loc, schedule.getNumMicrobatches());
  builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
  for (const Call &call : schedule.getCalls())
    exec::CallOp::create(builder, loc, schedule.getFunctions()[call.function].name,
                         call.microbatch, call.slot);
}

struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (microbatches < 1) {
      module.emitError("number of microbatches must be positive, got: ") << microbatches.getValue();
      return signalPassFailure();
    }
    if (auto step = module.lookupSymbol<func::FuncOp>(kLossAndGrads)) {
      SmallVector<unsigned> found = accumulators(step);
      if (microbatches > 1 && found.empty()) {
        step.emitError("more than one microbatch needs accumulators: ") << microbatches.getValue();
        return signalPassFailure();
      }
      if (!found.empty())
        buildClear(step, found);
    }
    std::vector<StepFunction> functions;
    for (const auto &[name, cadence] : kStepFunctions)
      if (module.lookupSymbol<func::FuncOp>(name))
        functions.push_back({name.str(), cadence});
    ScheduleBuilder schedule(std::move(functions), static_cast<uint32_t>(microbatches));
    buildAccumulation(schedule);
    if (std::string problem = schedule.verify(); !problem.empty()) {
      module.emitError() << problem;
      return signalPassFailure();
    }
    buildScheduleOp(module, schedule);
  }
};

} // namespace
} // namespace dtc::lower
