#include "Evaluator.h"
#include "LibraryCalls.h"

using namespace mlir;

namespace dtc::interpreter {

/// Calls that recurse would not end.
constexpr int kMaxDepth = 64;

static LogicalResult checkSupported(Operation *op, TypeRange types) {
  for (Type type : types)
    if (!Tensor::isSupported(type))
      return op->emitOpError() << "is not interpreted on this type: " << type;
  return success();
}

const KernelTable &kernels() {
  static const KernelTable table = [] {
    KernelTable all;
    addShapeKernels(all);
    addReduceKernels(all);
    addIndexKernels(all);
    addVisionKernels(all);
    addRandomKernels(all);
    return all;
  }();
  return table;
}

static FailureOr<Tensor> evaluatePrimitive(Operation *op, Operands operands) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto attr = dyn_cast<ElementsAttr>(constant.getValue());
    FailureOr<Tensor> value = attr ? toTensor(attr) : FailureOr<Tensor>(failure());
    if (failed(value))
      return op->emitOpError() << "holds a form of constant that is not interpreted";
    return value;
  }
  if (graph::isElementwise(op))
    return evaluateElementwise(op, operands);
  if (const KernelTable::Kernel *kernel = kernels().find(op->getName().getStringRef()))
    return (*kernel)(op, operands);
  return op->emitOpError() << "is not interpreted";
}

bool isInterpreted(OperationName op) {
  return op.hasInterface<DecomposableOpInterface>() || kernels().find(op.getStringRef());
}

//===-- one op ------------------------------------------------------------===//

/// What the op gets on one rank.
static SmallVector<const Tensor *> onRank(ArrayRef<RankTensors> operands, int64_t rank) {
  return llvm::map_to_vector(operands,
                             [&](const RankTensors &value) { return value[rank].get(); });
}

static FailureOr<Tensors> evaluateOnRank(Operation *op, Operands operands, Numerics numerics) {
  if (isCallOnParts(op))
    return evaluateCallOnParts(op, operands, numerics);
  FailureOr<Tensor> tensor = evaluatePrimitive(op, operands);
  if (failed(tensor))
    return failure();
  return Tensors{std::move(*tensor)};
}

/// Ranks whose operands are the same tensors share the first one's results.
Evaluator::Results Evaluator::evaluateLocal(Operation *op, ArrayRef<RankTensors> operands) {
  std::vector<RankTensors> results(op->getNumResults());
  for (int64_t rank = 0; rank < numRanks; ++rank) {
    bool shared = rank > 0 && llvm::all_of(operands, [&](const RankTensors &value) {
                    return value[rank] == value[0];
                  });
    if (shared) {
      for (RankTensors &result : results)
        result.push_back(result[0]);
      continue;
    }
    FailureOr<Tensors> tensors = evaluateOnRank(op, onRank(operands, rank), numerics);
    if (failed(tensors))
      return failure();
    for (auto [result, tensor] : llvm::zip_equal(results, *tensors)) {
      if (numerics == Numerics::ProgramTypes || !tensor.isFloat())
        roundToType(tensor);
      result.push_back(std::make_shared<const Tensor>(std::move(tensor)));
    }
  }
  return results;
}

Evaluator::Results Evaluator::evaluateDecomposed(DecomposableOpInterface op,
                                                 ArrayRef<RankTensors> operands) {
  FailureOr<func::FuncOp> func = decompositions.of(op);
  if (failed(func))
    return failure();
  return evaluateBlock(func->front(), operands);
}

Evaluator::Results Evaluator::evaluateCall(func::CallOp op, ArrayRef<RankTensors> operands) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee)
    return op.emitOpError() << "calls an unknown function: " << op.getCallee();
  return call(callee, operands);
}

Evaluator::Results Evaluator::evaluate(Operation *op, ArrayRef<RankTensors> operands) {
  if (auto callOp = dyn_cast<func::CallOp>(op))
    return evaluateCall(callOp, operands);
  if (failed(checkSupported(op, op->getOperandTypes())) ||
      failed(checkSupported(op, op->getResultTypes())))
    return failure();
  if (auto decomposable = dyn_cast<DecomposableOpInterface>(op))
    return evaluateDecomposed(decomposable, operands);
  if (!isCollective(op))
    return evaluateLocal(op, operands);
  if (!mesh)
    return op->emitOpError() << "needs a mesh to be interpreted";
  SmallVector<SmallVector<const Tensor *>> perRank;
  for (int64_t rank = 0; rank < numRanks; ++rank)
    perRank.push_back(onRank(operands, rank));
  std::vector<RankTensors> results(op->getNumResults()); // several of a bucketed reduction
  for (unsigned i = 0; i < results.size(); ++i) {
    auto tensors = evaluateCollective(op, *mesh, llvm::to_vector_of<Operands>(perRank), i);
    if (failed(tensors))
      return failure();
    for (Tensor &tensor : *tensors) {
      if (numerics == Numerics::ProgramTypes || !tensor.isFloat())
        roundToType(tensor);
      results[i].push_back(std::make_shared<const Tensor>(std::move(tensor)));
    }
  }
  return results;
}

//===-- functions ---------------------------------------------------------===//

Evaluator::Results Evaluator::evaluateBlock(Block &block, ArrayRef<RankTensors> arguments) {
  llvm::DenseMap<Value, RankTensors> values;
  // Tensors are dropped after their last use.
  llvm::DenseMap<Value, int64_t> usesLeft;
  auto define = [&](Value value, RankTensors tensors) {
    int64_t uses = std::distance(value.use_begin(), value.use_end());
    if (uses == 0)
      return;
    usesLeft[value] = uses;
    values[value] = std::move(tensors);
  };
  for (auto [argument, tensors] : llvm::zip_equal(block.getArguments(), arguments))
    define(argument, tensors);
  for (Operation &op : block) {
    std::vector<RankTensors> operands;
    for (Value operand : op.getOperands()) {
      auto found = values.find(operand);
      if (found == values.end())
        return op.emitOpError() << "uses a value from outside its function";
      operands.push_back(found->second);
    }
    for (Value operand : op.getOperands())
      if (--usesLeft[operand] == 0)
        values.erase(operand);
    if (isa<func::ReturnOp>(op))
      return operands;
    Results results = evaluate(&op, operands);
    if (failed(results))
      return failure();
    for (auto [value, tensors] : llvm::zip_equal(op.getResults(), *results)) {
      if (observer)
        observer(value, *tensors.front());
      define(value, std::move(tensors));
    }
  }
  return block.getParentOp()->emitOpError() << "does not end in a return";
}

Evaluator::Results Evaluator::call(func::FuncOp func, ArrayRef<RankTensors> arguments) {
  if (!func.getBody().hasOneBlock())
    return func.emitOpError() << "must have one block to be interpreted";
  if (func.getNumArguments() != arguments.size())
    return func.emitOpError() << "takes " << func.getNumArguments()
                              << " arguments: " << arguments.size();
  if (depth == kMaxDepth)
    return func.emitOpError() << "is called too deep in other functions";
  ++depth;
  Results results = evaluateBlock(func.front(), arguments);
  --depth;
  return results;
}

//===-- entry points ------------------------------------------------------===//

/// Checks the inputs against the types expected and turns them by value.
static FailureOr<std::vector<RankTensors>> byValue(Operation *op, TypeRange types,
                                                   const std::vector<Tensors> &inputs) {
  std::vector<RankTensors> values(types.size());
  for (const Tensors &ofRank : inputs) {
    if (ofRank.size() != types.size())
      return op->emitOpError() << "takes " << types.size() << " inputs: " << ofRank.size();
    for (auto [i, tensor] : llvm::enumerate(ofRank)) {
      if (tensor.type != types[i])
        return op->emitOpError() << "input " << i << " must have the type " << types[i] << ": "
                                 << tensor.type;
      if (tensor.size() != static_cast<int64_t>(tensor.floats.size() + tensor.ints.size()))
        return op->emitOpError() << "input " << i << " must have " << tensor.size()
                                 << " elements: " << tensor.floats.size() + tensor.ints.size();
      values[i].push_back(std::make_shared<const Tensor>(tensor));
    }
  }
  return values;
}

static std::vector<Tensors> byRank(const std::vector<RankTensors> &values, int64_t ranks) {
  std::vector<Tensors> results(ranks);
  for (const RankTensors &value : values)
    for (int64_t rank = 0; rank < ranks; ++rank)
      results[rank].push_back(*value[rank]);
  return results;
}

FailureOr<Tensors> evaluate(func::FuncOp func, const Tensors &inputs, Numerics numerics,
                            Decompositions &decompositions, Observer observer) {
  Evaluator evaluator(numerics, nullptr, decompositions, std::move(observer));
  auto values = byValue(func, func.getArgumentTypes(), {inputs});
  if (failed(values))
    return failure();
  auto results = evaluator.call(func, *values);
  if (failed(results))
    return failure();
  return byRank(*results, 1)[0];
}

FailureOr<Tensors> evaluate(func::FuncOp func, const Tensors &inputs, Numerics numerics) {
  Decompositions decompositions;
  return evaluate(func, inputs, numerics, decompositions, {});
}

FailureOr<Tensors> evaluate(Operation *op, const Tensors &operands, Numerics numerics) {
  Decompositions decompositions;
  Evaluator evaluator(numerics, nullptr, decompositions);
  auto values = byValue(op, op->getOperandTypes(), {operands});
  if (failed(values))
    return failure();
  auto results = evaluator.evaluate(op, *values);
  if (failed(results))
    return failure();
  return byRank(*results, 1)[0];
}

FailureOr<std::vector<Tensors>> evaluateRanks(func::FuncOp func, const sharding::Mesh &mesh,
                                              const std::vector<Tensors> &inputs, Numerics numerics,
                                              Decompositions &decompositions) {
  Evaluator evaluator(numerics, &mesh, decompositions);
  if (static_cast<int64_t>(inputs.size()) != evaluator.ranks())
    return func.emitOpError() << "needs inputs for " << evaluator.ranks()
                              << " ranks: " << inputs.size();
  auto values = byValue(func, func.getArgumentTypes(), inputs);
  if (failed(values))
    return failure();
  auto results = evaluator.call(func, *values);
  if (failed(results))
    return failure();
  return byRank(*results, evaluator.ranks());
}

FailureOr<std::vector<Tensors>> evaluateRanks(func::FuncOp func, const sharding::Mesh &mesh,
                                              const std::vector<Tensors> &inputs,
                                              Numerics numerics) {
  Decompositions decompositions;
  return evaluateRanks(func, mesh, inputs, numerics, decompositions);
}

} // namespace dtc::interpreter
