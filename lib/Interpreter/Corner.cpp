#include "Corner.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Interfaces/Interfaces.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

#include <map>

using namespace mlir;

namespace dtc::interpreter {
namespace {

using graph::shapeOf;
using sharding::FactorId;
using sharding::FactorKind;
using sharding::ShardingRule;
using sharding::TensorFactors;
using Box = SmallVector<int64_t>;

/// How much of each factor an op computes.
class FactorCounts {
public:
  explicit FactorCounts(ShardingRule ruleOfOp)
      : rule(std::move(ruleOfOp)), counts(rule.factors.size(), 1) {
    for (auto [factor, count] : llvm::zip_equal(rule.factors, counts))
      if (factor.kind != FactorKind::Parallel)
        count = factor.size;
  }

  /// At least the first elements of a result.
  void need(size_t result, ArrayRef<int64_t> box) {
    for (auto [factors, wanted] : llvm::zip_equal(rule.results[result], box)) {
      int64_t rest = wanted;
      for (FactorId factor : llvm::reverse(factors)) {
        counts[factor] = std::max(counts[factor], std::min(rule.factors[factor].size, rest));
        rest = llvm::divideCeil(rest, rule.factors[factor].size);
      }
    }
  }

  /// Until of each dimension the first elements are computed: of (b s) a second b comes after all
  /// of the first one's s.
  void close() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (const std::vector<TensorFactors> *tensors : {&rule.operands, &rule.results})
        for (const TensorFactors &tensor : *tensors)
          for (const std::vector<FactorId> &dim : tensor)
            changed |= closeDim(dim);
    }
  }

  Box boxOf(const TensorFactors &tensor) const {
    return llvm::map_to_vector(tensor, [&](const std::vector<FactorId> &dim) {
      int64_t size = 1;
      for (FactorId factor : dim)
        size *= counts[factor];
      return size;
    });
  }

  /// Of causal attention the first queries see the first keys alone, as many as there are queries.
  /// Its rule has both as whole, since other shards of the queries see more.
  void needCausal(graph::AttentionOp attention, ArrayRef<int64_t> result) {
    const auto &query = rule.operands[0][1], &key = rule.operands[1][1];
    const bool isSquare = shapeOf(attention.getQuery())[1] == shapeOf(attention.getKey())[1];
    if (attention.getCausal() && isSquare && query.size() == 1 && key.size() == 1)
      counts[query[0]] = counts[key[0]] = result[1];
  }

  /// Experts and their rows have common parts, of which one part isn't the first rows. Samples
  /// apart, all is needed.
  void needExperts(int64_t dimsOfChoices) {
    const Box cut = counts;
    for (auto [factor, count] : llvm::zip_equal(rule.factors, counts))
      count = factor.size;
    if (dimsOfChoices > 1)
      for (FactorId factor : rule.results[0][0])
        counts[factor] = cut[factor];
  }

  ShardingRule rule;

private:
  bool closeDim(const std::vector<FactorId> &dim) {
    bool isCut = false, changed = false;
    for (FactorId factor : dim) {
      if (isCut && counts[factor] < rule.factors[factor].size) {
        counts[factor] = rule.factors[factor].size;
        changed = true;
      }
      isCut = isCut || counts[factor] > 1;
    }
    return changed;
  }

  Box counts;
};

class CornerBuilder {
public:
  CornerBuilder(func::FuncOp function, int64_t most) : function(function), most(most) {}

  OwningOpRef<ModuleOp> build() {
    if (!function.getBody().hasOneBlock() || failed(findNeeds()))
      return {};
    OpBuilder builder(function.getContext());
    OwningOpRef<ModuleOp> module = ModuleOp::create(function.getLoc());
    builder.setInsertionPointToStart(module->getBody());
    makeFunction(builder);
    return failed(verify(*module)) ? OwningOpRef<ModuleOp>() : std::move(module);
  }

private:
  Operation *terminator() { return function.front().getTerminator(); }

  void need(Value value, ArrayRef<int64_t> box) {
    Box &known = needs.try_emplace(value, Box(box.size(), 1)).first->second;
    for (auto [old, wanted] : llvm::zip_equal(known, box))
      old = std::max(old, wanted);
  }

  LogicalResult findNeeds() {
    for (Value result : terminator()->getOperands()) {
      Box box(shapeOf(result));
      for (auto [dim, size] : llvm::enumerate(box))
        size = std::min<int64_t>(size, dim == 0 ? 1 : most);
      need(result, box);
    }
    for (Operation &op : llvm::reverse(function.front().without_terminator()))
      if (llvm::any_of(op.getResults(), [&](Value result) { return needs.contains(result); }) &&
          failed(visit(&op)))
        return failure();
    return success();
  }

  LogicalResult visit(Operation *op) {
    if (isa<arith::ConstantOp>(op))
      return success();
    if (auto dropout = dyn_cast<graph::DropoutOp>(op)) {
      need(dropout.getInput(), Box(needs[dropout.getResult()]));
      return success();
    }
    if (auto slice = dyn_cast<graph::SliceOp>(op)) {
      Box from(needs[slice.getResult()]);
      ofResults[op] = {from};
      for (auto [count, offset, stride] :
           llvm::zip_equal(from, slice.getOffsets(), slice.getStrides()))
        count = offset + (count - 1) * stride + 1;
      ofOperands[op] = {from};
      need(slice.getInput(), from);
      return success();
    }
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled || op->getNumRegions() > 0)
      return failure();
    FactorCounts counts(ruled.getShardingRule());
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (auto found = needs.find(result); found != needs.end())
        counts.need(i, found->second);
    if (auto attention = dyn_cast<graph::AttentionOp>(op))
      if (auto found = needs.find(attention.getResult()); found != needs.end())
        counts.needCausal(attention, found->second);
    if (isa<graph::DispatchOp, graph::CombineOp, graph::GroupedContractOp>(op))
      counts.needExperts(shapeOf(op->getOperands().back()).size());
    counts.close();
    std::vector<Box> &operands = ofOperands[op], &results = ofResults[op];
    for (const TensorFactors &tensor : counts.rule.operands)
      operands.push_back(counts.boxOf(tensor));
    for (const TensorFactors &tensor : counts.rule.results)
      results.push_back(counts.boxOf(tensor));
    for (auto [operand, box] : llvm::zip_equal(op->getOperands(), operands))
      need(operand, box);
    return success();
  }

  static RankedTensorType typeOf(Value value, ArrayRef<int64_t> box) {
    return cast<RankedTensorType>(value.getType()).clone(box);
  }

  bool isSample(unsigned argument) {
    graph::RoleAttr role = graph::getArgRole(function, argument);
    return role && role.getKind() == graph::RoleKind::Input;
  }

  void makeFunction(OpBuilder &builder) {
    SmallVector<Type> arguments;
    for (BlockArgument argument : function.getArguments()) {
      auto found = needs.find(argument);
      const bool isCut = isSample(argument.getArgNumber()) && found != needs.end();
      arguments.push_back(isCut ? typeOf(argument, found->second) : argument.getType());
    }
    auto corner = func::FuncOp::create(builder, function.getLoc(), function.getSymName(),
                                       builder.getFunctionType(arguments, {}));
    for (unsigned i = 0; i < arguments.size(); ++i)
      if (auto attrs = function.getArgAttrDict(i))
        corner.setArgAttrs(i, attrs);
    Block *body = corner.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    mapping.map(function.getArguments(), body->getArguments());
    for (Operation &op : function.front().without_terminator())
      copy(builder, &op);
    SmallVector<Value> results;
    for (Value result : terminator()->getOperands())
      results.push_back(cut(builder, result, needs[result]));
    func::ReturnOp::create(builder, function.getLoc(), results);
    corner.setType(builder.getFunctionType(arguments, ValueRange(results).getTypes()));
    graph::annotateIndexLimits(corner);
  }

  void copy(OpBuilder &builder, Operation *op) {
    if (llvm::none_of(op->getResults(), [&](Value result) { return needs.contains(result); }))
      return;
    if (auto dropout = dyn_cast<graph::DropoutOp>(op)) {
      mapping.map(dropout.getResult(), mapping.lookup(dropout.getInput()));
      return;
    }
    SmallVector<Value> operands;
    if (!isa<arith::ConstantOp>(op))
      for (auto [operand, box] : llvm::zip_equal(op->getOperands(), ofOperands[op]))
        operands.push_back(cut(builder, operand, box));
    Operation *copied = builder.clone(*op, mapping);
    copied->setOperands(operands);
    if (!isa<arith::ConstantOp>(op))
      for (auto [result, box] : llvm::zip_equal(copied->getResults(), ofResults[op]))
        result.setType(typeOf(result, box));
    if (auto attention = dyn_cast<graph::AttentionOp>(copied); attention && attention.getWindow())
      attention.setWindow(
          std::min<uint64_t>(*attention.getWindow(), shapeOf(attention.getKey())[1]));
    mapping.map(op->getResults(), copied->getResults());
  }

  Value cut(OpBuilder &builder, Value value, const Box &box) {
    Value whole = mapping.lookup(value);
    if (shapeOf(whole) == ArrayRef(box))
      return whole;
    Value &part = parts[{whole.getAsOpaquePointer(), box}];
    if (!part)
      part = graph::SliceOp::create(builder, value.getLoc(), typeOf(whole, box), whole,
                                    Box(box.size(), 0), Box(box.size(), 1));
    return part;
  }

  func::FuncOp function;
  int64_t most;
  DenseMap<Value, Box> needs;
  DenseMap<Operation *, std::vector<Box>> ofOperands, ofResults;
  std::map<std::pair<void *, Box>, Value> parts;
  IRMapping mapping;
};

} // namespace

OwningOpRef<ModuleOp> cornerOf(func::FuncOp function, int64_t most) {
  return CornerBuilder(function, most).build();
}

} // namespace dtc::interpreter
