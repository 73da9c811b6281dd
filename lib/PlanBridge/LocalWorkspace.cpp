#include "dtc/PlanBridge/LocalWorkspace.h"

#include "Functions.h"

#include "dtc/Dialect/Graph/AlikeOps.h"
#include "dtc/Interfaces/Interfaces.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::planbridge {

LocalWorkspace::LocalWorkspace(ModuleOp module, Measure measure) : measure(std::move(measure)) {
  func::FuncOp func = microbatchFunction(module);
  if (!func)
    return;
  llvm::DenseMap<Operation *, Operation *, AlikeOps> exampleOf;
  for (Operation *op : plannedOps(func)) {
    Operation *&example = exampleOf[op];
    if (!example) {
      IRMapping arguments;
      for (Value operand : op->getOperands())
        if (!arguments.contains(operand))
          arguments.map(operand, examples.addArgument(operand.getType(), operand.getLoc()));
      example = op->clone(arguments);
      examples.push_back(example);
    }
    ops.push_back(example);
  }
}

static SmallVector<Type> localTypes(TypeRange types, const plan::Shapes &shapes) {
  SmallVector<Type> result;
  for (auto [type, shape] : llvm::zip_equal(types, shapes))
    result.push_back(cast<RankedTensorType>(type).clone(shape));
  return result;
}

/// @forward with the op as `rebuild` makes it from the arguments.
static OwningOpRef<ModuleOp> moduleOf(Operation *op, TypeRange operands, TypeRange results) {
  MLIRContext *context = op->getContext();
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto func = func::FuncOp::create(builder, op->getLoc(), "forward",
                                   builder.getFunctionType(operands, results));
  setRuns(func, Cadence::Microbatch, Passes::Forward);
  auto role = [&](RoleKind kind, size_t i) {
    return RoleAttr::get(context, kind, std::to_string(i), std::nullopt, std::nullopt);
  };
  for (unsigned i = 0; i < operands.size(); ++i)
    func.setArgAttr(i, GraphDialect::kRole, role(RoleKind::Input, i));
  for (unsigned i = 0; i < results.size(); ++i)
    func.setResultAttr(i, GraphDialect::kRole, role(RoleKind::Output, i));
  builder.setInsertionPointToStart(func.addEntryBlock());
  auto ruled = cast<ShardingRuleOpInterface>(op);
  sharding::ShardingRule rule = ruled.getShardingRule();
  sharding::OpSharding whole{std::vector<sharding::AxisList>(rule.factors.size()), {}};
  sharding::Mesh mesh;
  LocalContext local{rule, whole, mesh, [](OpBuilder &, sharding::FactorId) { return Value(); }};
  auto built = ruled.buildLocal(builder, func.getArguments(), results, local);
  if (failed(built))
    return nullptr;
  func::ReturnOp::create(builder, op->getLoc(), *built);
  return module;
}

int64_t LocalWorkspace::bytes(plan::OpId id, const plan::Shapes &operands,
                              const plan::Shapes &results, const plan::OpPlaces &given) const {
  Operation *op = ops.at(id);
  SmallVector<Type> operandTypes = localTypes(op->getOperandTypes(), operands),
                    resultTypes = localTypes(op->getResultTypes(), results);
  Builder builder(op->getContext());
  plan::OpPlaces places = given;
  places.apart.resize(resultTypes.size());
  auto list = [&](const std::vector<bool> &flags) {
    return builder.getBoolArrayAttr(SmallVector<bool>(flags.begin(), flags.end()));
  };
  Attribute key = builder.getArrayAttr(
      {builder.getStringAttr(op->getName().getStringRef()), op->getPropertiesAsAttribute(),
       TypeAttr::get(builder.getFunctionType(operandTypes, resultTypes)), list(places.spent),
       list(places.apart)});
  auto [entry, isNew] = known.try_emplace(key, 0);
  if (!isNew)
    return entry->second;
  // What cannot be carried out is refused when the plan is compiled.
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  if (OwningOpRef<ModuleOp> module = moduleOf(op, operandTypes, resultTypes))
    if (FailureOr<int64_t> measured = measure(*module, places); succeeded(measured))
      entry->second = *measured;
  return entry->second;
}

} // namespace dtc::planbridge
