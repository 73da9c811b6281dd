#include "Outline.h"
#include "IndexMath.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace dtc::cpu {

using graph::shapeOf;

Outliner::Outliner(ModuleOp module) : module(module), symbols(module) {}

exec::KernelOp Outliner::build(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                               ArrayRef<Value> outputs, Location loc) {
  OpBuilder builder(module.getContext());
  auto kernel = exec::KernelOp::create(builder, loc, "kernel", /*extent=*/0, /*scratchBytes=*/0,
                                       /*flat=*/false, /*replaces=*/nullptr);
  Block &body = kernel.getBodyRegion().emplaceBlock();
  builder.setInsertionPointToEnd(&body);
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  for (Operation *op : ops) {
    Operation *clone = builder.clone(*op, mapping);
    clone->removeAttr(graph::GraphDialect::kId);
    clone->removeAttr(graph::GraphDialect::kBackward);
  }
  SmallVector<Value> yielded;
  for (Value output : outputs)
    yielded.push_back(mapping.lookup(output));
  exec::YieldOp::create(builder, loc, yielded);
  return kernel;
}

/// Brings a flat kernel to one dimension, so that tensors of all shapes share it.
static void flatten(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto flat = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() != 0)
      value.setType(RankedTensorType::get({type.getNumElements()}, type.getElementType()));
  };
  llvm::for_each(body.getArguments(), flat);
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    flat(op.getResult(0));
    if (auto value = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = cast<DenseElementsAttr>(value.getValue());
      value.setValueAttr(elements.resizeSplat(cast<ShapedType>(value.getType())));
    }
    Value input = op.getNumOperands() ? op.getOperand(0) : Value();
    if (isa<graph::ReshapeOp>(op) && input.getType() == op.getResult(0).getType()) {
      op.getResult(0).replaceAllUsesWith(input);
      op.erase();
    }
  }
}

/// What a kernel computes, as text: equal for kernels that differ in names and
/// locations only, or, if flat, in the number of elements.
static std::string structure(exec::KernelOp kernel, bool flat) {
  std::string text;
  llvm::raw_string_ostream os(text);
  DenseMap<Value, unsigned> numbers;
  auto type = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (!flat)
      os << tensor;
    else
      os << (tensor.getRank() ? "n x " : "") << tensor.getElementType();
  };
  os << kernel.getReplacesAttr();
  auto number = [&](Value value) {
    numbers.try_emplace(value, numbers.size());
    os << " %" << numbers[value] << ":";
    type(value.getType());
  };
  Block &body = kernel.getBody().front();
  llvm::for_each(body.getArguments(), number);
  for (Operation &op : body) {
    os << "\n" << op.getName();
    for (Value operand : op.getOperands())
      os << " %" << numbers[operand];
    auto value = dyn_cast<arith::ConstantOp>(op);
    auto elements = value ? dyn_cast<DenseElementsAttr>(value.getValue()) : DenseElementsAttr();
    if (elements && elements.isSplat())
      os << " " << elements.getSplatValue<Attribute>();
    else
      os << " " << op.getAttrDictionary();
    llvm::for_each(op.getResults(), number);
  }
  return text;
}

static StringRef nameOf(KernelKind kind) {
  switch (kind) {
  case KernelKind::Pointwise:
    return "pointwise";
  case KernelKind::Rows:
    return "rows";
  case KernelKind::Columns:
    return "columns";
  case KernelKind::Scatter:
    return "scatter";
  case KernelKind::Scan:
    return "scan";
  case KernelKind::Pool:
    return "pool";
  }
  llvm_unreachable("all kinds handled");
}

/// What a cluster computes, as the identities of its types, attributes and operands: equal
/// for clusters that would become the same kernel with the same shapes.
static std::vector<uintptr_t> identityOf(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                                         ArrayRef<Value> outputs, ArrayRef<int64_t> replaces) {
  std::vector<uintptr_t> key(replaces.begin(), replaces.end());
  DenseMap<Value, unsigned> numbers;
  auto add = [&](auto handle) {
    key.push_back(reinterpret_cast<uintptr_t>(handle.getAsOpaquePointer()));
  };
  auto number = [&](Value value) {
    numbers.try_emplace(value, numbers.size());
    add(value.getType());
  };
  key.push_back(inputs.size());
  llvm::for_each(inputs, number);
  for (Operation *op : ops) {
    add(op->getName());
    key.push_back(op->getNumOperands());
    for (Value operand : op->getOperands())
      key.push_back(numbers.lookup(operand));
    add(op->getPropertiesAsAttribute());
    for (NamedAttribute attr : op->getDiscardableAttrs())
      if (attr.getName() != graph::GraphDialect::kId &&
          attr.getName() != graph::GraphDialect::kBackward) {
        add(attr.getName());
        add(attr.getValue());
      }
    llvm::for_each(op->getResults(), number);
  }
  for (Value output : outputs)
    key.push_back(numbers.lookup(output));
  return key;
}

FailureOr<Outliner::Launch> Outliner::findOrAdd(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  OpBuilder builder(module.getContext());
  bool flat = false;
  {
    BodyInfo info(body);
    FailureOr<KernelKind> kind = classify(info);
    if (failed(kind))
      return failure();
    flat = *kind == KernelKind::Pointwise && isFlat(info);
  }
  if (flat)
    flatten(kernel);
  int64_t extent = IndexMath::numElements(shapeOf(kernel.getYield().getValues()[0]));
  auto [entry, fresh] = known.try_emplace(structure(kernel, flat));
  if (!fresh) {
    kernel.erase();
    return Launch{&entry->second, flat ? extent : int64_t(entry->second.kernel.getExtent())};
  }
  FailureOr<KernelPlan> plan = planKernel(body);
  if (failed(plan))
    return failure();
  kernel.setExtent(plan->extent);
  kernel.setScratchBytes(plan->scratchBytes);
  kernel.setFlat(plan->flat);
  kernel.setSymName((nameOf(plan->kind) + "_" + Twine(numbers[size_t(plan->kind)]++)).str());
  symbols.insert(kernel, Block::iterator(module.getBody()->begin()));
  entry->second = {kernel, plan->inPlace};
  return Launch{&entry->second, plan->extent};
}

/// The role of what a value is returned as, and of the argument that it is;
/// reshapes don't matter.
static graph::RoleAttr returnedRole(Value value) {
  for (OpOperand &use : value.getUses()) {
    if (isa<graph::ReshapeOp>(use.getOwner())) {
      if (graph::RoleAttr role = returnedRole(use.getOwner()->getResult(0)))
        return role;
    } else if (auto terminator = dyn_cast<func::ReturnOp>(use.getOwner())) {
      return graph::getResultRole(cast<func::FuncOp>(terminator->getParentOp()),
                                  use.getOperandNumber());
    }
  }
  return {};
}
static graph::RoleAttr argumentRole(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  return graph::getArgRole(cast<func::FuncOp>(argument.getOwner()->getParentOp()),
                           argument.getArgNumber());
}

/// For each output, the input that it is the new value of, or -1; empty when
/// there is none.
static SmallVector<int64_t> findReplaced(ArrayRef<Value> inputs, ArrayRef<Value> outputs) {
  SmallVector<int64_t> replaces(outputs.size(), -1);
  for (auto [i, output] : llvm::enumerate(outputs))
    if (graph::RoleAttr role = returnedRole(output))
      for (auto [j, input] : llvm::enumerate(inputs))
        if (argumentRole(input) == role)
          replaces[i] = j;
  if (llvm::all_of(replaces, [](int64_t operand) { return operand < 0; }))
    replaces.clear();
  return replaces;
}

/// Ops in the order in which the outputs ask for them, whatever the program's: equal
/// clusters become equal kernels.
static SmallVector<Operation *> canonicalOrder(const llvm::SetVector<Operation *> &ops,
                                               ArrayRef<Value> outputs) {
  SmallVector<Operation *> sorted;
  DenseSet<Operation *> done;
  std::function<void(Value)> visit = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !ops.contains(op) || !done.insert(op).second)
      return;
    llvm::for_each(op->getOperands(), visit);
    sorted.push_back(op);
  };
  llvm::for_each(outputs, visit);
  return sorted;
}

/// The launch stands where the source's last op stood, and is named like it.
static Location locationOf(ArrayRef<Value> outputs) { return outputs.back().getLoc(); }

LogicalResult Outliner::launch(const Clustering &clustering, int cluster, OpBuilder &builder) {
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> reads;
  clustering.inputsOf(cluster, ops, reads);
  SmallVector<Value> outputs = clustering.outputsOf(cluster);
  const llvm::SetVector<Operation *> &own = clustering.clusters[cluster].ops;
  ops.insert(own.begin(), own.end());
  SmallVector<Operation *> sorted = canonicalOrder(ops, outputs);
  // Operands in the order of their first use: equal kernels get equal ones.
  llvm::SetVector<Value> inputs;
  for (Operation *op : sorted)
    for (Value operand : op->getOperands())
      if (reads.contains(operand))
        inputs.insert(operand);

  Location loc = locationOf(outputs);
  SmallVector<int64_t> replaces = findReplaced(inputs.getArrayRef(), outputs);
  auto [place, fresh] = launches.try_emplace(
      identityOf(sorted, inputs.getArrayRef(), outputs, replaces));
  Launch &found = place->second;
  if (fresh) {
    exec::KernelOp kernel = build(sorted, inputs.getArrayRef(), outputs, loc);
    if (!replaces.empty())
      kernel.setReplaces(replaces);
    FailureOr<Launch> added = findOrAdd(kernel);
    if (failed(added))
      return failure();
    found = *added;
  }
  SmallVector<Type> types = llvm::map_to_vector(outputs, [](Value v) { return v.getType(); });
  exec::KernelOp shared = found.kernel->kernel;
  auto op = exec::LaunchOp::create(builder, loc, types, shared.getSymName(),
                                   inputs.getArrayRef(), found.extent,
                                   found.kernel->inPlace);
  for (auto [output, result] : llvm::zip(outputs, op.getResults()))
    output.replaceAllUsesWith(result);
  return success();
}

LogicalResult Outliner::outline(func::FuncOp func) {
  Clustering clustering(func);
  Block &block = func.getBody().front();
  SmallVector<Operation *> old;
  for (Operation &op : block)
    if (isPrimitive(&op))
      old.push_back(&op);
  // Everything is put at the end of the block anew, in order.
  Operation *terminator = block.getTerminator();
  OpBuilder builder(terminator);
  DenseSet<Operation *> views;
  std::function<void(Value)> keepView = [&](Value value) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (!reshape || !views.insert(reshape).second)
      return;
    keepView(reshape.getInput());
    reshape->moveBefore(terminator);
  };
  for (const Clustering::Step &step : clustering.order()) {
    if (step.op == terminator) {
      llvm::for_each(terminator->getOperands(), keepView);
    } else if (step.op) {
      llvm::for_each(step.op->getOperands(), keepView);
      step.op->moveBefore(terminator);
    } else if (failed(launch(clustering, step.cluster, builder))) {
      return failure();
    }
  }
  for (Operation *op : llvm::reverse(old))
    if (!views.contains(op)) {
      op->dropAllUses();
      op->erase();
    }
  return success();
}

} // namespace dtc::cpu
