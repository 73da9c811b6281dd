#include "KernelIdentity.h"

#include "dtc/Dialect/Graph/OpIdentity.h"

using namespace mlir;

namespace dtc::kernels {

std::string structure(exec::KernelOp kernel, bool flat) {
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
  os << kernel.getReplacesAttr() << kernel.getPieces();
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

std::vector<uintptr_t> identityOf(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                                  ArrayRef<Value> outputs, ArrayRef<int64_t> replaces) {
  std::vector<uintptr_t> key(replaces.begin(), replaces.end());
  llvm::SmallDenseMap<Value, unsigned, 32> numbers;
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
    graph::appendOwnAttributes(op, key);
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

graph::RoleAttr returnedRole(Value value) {
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

graph::RoleAttr argumentRole(Value value) {
  auto argument = dyn_cast<BlockArgument>(graph::withoutReshapes(value));
  if (!argument)
    return {};
  return graph::getArgRole(cast<func::FuncOp>(argument.getOwner()->getParentOp()),
                           argument.getArgNumber());
}

SmallVector<int64_t> findReplaced(ArrayRef<Value> inputs, ArrayRef<Value> outputs) {
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

/// Appends what computes the value, as far as it is among `ops` and not yet `sorted`.
static void appendWithProducers(Value value, const OpSet &ops,
                                llvm::SmallPtrSetImpl<Operation *> &done,
                                SmallVectorImpl<Operation *> &sorted) {
  Operation *op = value.getDefiningOp();
  if (!op || !ops.contains(op) || !done.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    appendWithProducers(operand, ops, done, sorted);
  sorted.push_back(op);
}

SmallVector<Operation *> canonicalOrder(const OpSet &ops, ArrayRef<Value> outputs) {
  SmallVector<Operation *> sorted;
  llvm::SmallPtrSet<Operation *, 16> done;
  for (Value output : outputs)
    appendWithProducers(output, ops, done, sorted);
  return sorted;
}

} // namespace dtc::kernels
