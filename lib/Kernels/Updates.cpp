#include "Updates.h"
#include "Clusters.h"
#include "KernelIdentity.h"
#include "Simplify.h"

#include "dtc/Dialect/Graph/StepOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dtc::kernels {

static bool isUpdate(Operation *op) {
  return isa<graph::AdamUpdateOp, graph::SgdUpdateOp>(op);
}

static bool isConversion(Operation *op) { return isa<arith::ExtFOp, arith::TruncFOp>(op); }

bool staysInFunction(Operation *op, const target::Target &target) {
  return !isPrimitive(op) && (!isa<DecomposableOpInterface>(op) || target.staysWhole(op));
}

static bool isLoaded(Value value, const target::Target &target) {
  Operation *op = graph::withoutReshapes(value).getDefiningOp();
  return !op || staysInFunction(op, target);
}

static bool isOnlyStored(Value value, const target::Target &target);

static bool isStore(Operation *user, const target::Target &target) {
  return staysInFunction(user, target) ||
         (isa<graph::ReshapeOp>(user) && isOnlyStored(user->getResult(0), target));
}

static bool isOnlyStored(Value value, const target::Target &target) {
  return llvm::all_of(value.getUsers(),
                      [&](Operation *user) { return isStore(user, target); });
}

/// Whether an op of an update reads and makes only what lies in memory anyway.
static bool meetsMemory(Operation *op, const target::Target &target) {
  auto loaded = [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return elementsOf(operand) == 1 || isLoaded(operand, target) || (maker && isUpdate(maker));
  };
  auto stored = [&](Operation *user) {
    if (isa<graph::CommitOp>(user))
      return meetsMemory(user, target);
    return isConversion(user) ? isOnlyStored(user->getResult(0), target) : isStore(user, target);
  };
  return llvm::all_of(op->getOperands(), loaded) && llvm::all_of(op->getUsers(), stored);
}

/// The update that a commit is of; the op itself otherwise.
static Operation *updateOf(Operation *op) {
  auto commit = dyn_cast<graph::CommitOp>(op);
  Operation *maker = commit ? commit.getFresh().getDefiningOp() : op;
  return maker ? maker : op;
}

bool standsAlone(Operation *op, const target::Target &target) {
  Operation *update = updateOf(op);
  return isUpdate(update) && elementsOf(update) > 1 && meetsMemory(update, target);
}

Update::Update(Operation *op) { add(op); }

Operation *Update::whole() const { return *llvm::find_if(ops, isUpdate); }

void Update::erase() const {
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
}

void Update::add(Operation *op) {
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<arith::ConstantOp>();
    if (constant && !llvm::is_contained(ops, constant))
      ops.push_back(constant);
    else if (!constant && !llvm::is_contained(ops, operand.getDefiningOp()))
      inputs.insert(operand);
  }
  ops.push_back(op);
  for (Value result : op->getResults()) {
    bool stored = false;
    for (Operation *user : result.getUsers())
      if (isConversion(user)) {
        ops.push_back(user);
        outputs.push_back(user->getResult(0));
      } else if (isa<graph::CommitOp>(user)) {
        add(user);
      } else {
        stored = true;
      }
    if (stored)
      outputs.push_back(result);
  }
}

std::vector<Update> updatesOf(func::FuncOp func, const target::Target &target) {
  std::vector<Update> updates;
  for (Operation &op : func.getBody().front())
    if (isUpdate(&op) && !target.staysWhole(&op))
      updates.emplace_back(&op);
  return updates;
}

/// The update's ops in a function of its arguments and results.
static OwningOpRef<func::FuncOp> copyAlone(const Update &update) {
  Location loc = update.outputs.back().getLoc();
  ValueRange inputs = update.inputs.getArrayRef(), outputs = update.outputs;
  OwningOpRef<func::FuncOp> func = func::FuncOp::create(
      loc, "update",
      FunctionType::get(loc.getContext(), inputs.getTypes(), outputs.getTypes()));
  auto role = [](auto of) { return [of](Value value) -> Attribute { return of(value); }; };
  graph::setArgAttrs(*func, graph::GraphDialect::kRole,
                     llvm::map_to_vector(inputs, role(argumentRole)));
  graph::setResultAttrs(*func, graph::GraphDialect::kRole,
                        llvm::map_to_vector(outputs, role(returnedRole)));
  OpBuilder builder = OpBuilder::atBlockEnd(func->addEntryBlock());
  IRMapping mapping;
  mapping.map(inputs, func->getArguments());
  for (Operation *op : update.ops)
    builder.clone(*op, mapping);
  func::ReturnOp::create(builder, loc, llvm::map_to_vector(outputs, [&](Value value) {
                           return mapping.lookup(value);
                         }));
  return func;
}

FailureOr<OwningOpRef<func::FuncOp>> decomposeAlone(const Update &update) {
  OwningOpRef<func::FuncOp> func = copyAlone(update);
  for (Operation &op : llvm::make_early_inc_range(func->getBody().front())) {
    auto whole = dyn_cast<DecomposableOpInterface>(op);
    if (!whole)
      continue;
    OpBuilder builder(&op);
    auto results = whole.decompose(builder);
    if (failed(results))
      return op.emitOpError("cannot be decomposed for kernels");
    op.replaceAllUsesWith(*results);
    op.erase();
  }
  if (failed(simplify(*func)))
    return failure();
  return func;
}

void replace(const Update &update, func::FuncOp outlined) {
  OpBuilder builder(update.whole());
  IRMapping mapping;
  mapping.map(outlined.getArguments(), ValueRange(update.inputs.getArrayRef()));
  Block &body = outlined.getBody().front();
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping)->setLoc(update.outputs.back().getLoc());
  OperandRange results = body.getTerminator()->getOperands();
  for (auto [i, output] : llvm::enumerate(SmallVector<Value>(update.outputs)))
    output.replaceAllUsesWith(mapping.lookup(results[i]));
  update.erase();
}

} // namespace dtc::kernels
