#include "Rules.h"
#include "Verify.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

//===-- reduce ------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getInput());
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")))
    return failure();
  SmallVector<bool> reduced(from.size());
  for (int64_t dim : getDims()) {
    if (failed(verifyDim(*this, dim, from.size(), "dimension")))
      return failure();
    if (std::exchange(reduced[dim], true))
      return emitOpError() << "dims must not repeat a dimension: " << dim;
  }
  Shape shape;
  for (size_t i = 0; i < from.size(); ++i)
    if (!reduced[i])
      shape.push_back(from[i]);
  return verifyShape(*this, getResult(), shape, "result");
}

ShardingRule ReduceOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  auto reduce = sharding::ReduceKind::Sum;
  if (getKind() == graph::ReduceKind::Max)
    reduce = sharding::ReduceKind::Max;
  if (getKind() == graph::ReduceKind::Min)
    reduce = sharding::ReduceKind::Min;
  // Products have no pending form.
  FactorKind kind =
      getKind() == graph::ReduceKind::Prod ? FactorKind::Whole : FactorKind::Reduction;
  for (auto [i, size] : llvm::enumerate(shapeOf(getInput()))) {
    bool reduced = llvm::is_contained(getDims(), static_cast<int64_t>(i));
    FactorId id = reduced ? rule.factor(size, kind, reduce) : rule.factor(size);
    rule.operand(0, id);
    if (!reduced)
      rule.result(0, id);
  }
  if (getKind() == graph::ReduceKind::Sum)
    rule.linear({0});
  return rule.build();
}

OpCost ReduceOp::getCost() { return {OpKind::Reduction}; }
bool ReduceOp::isStatistic(unsigned) { return false; }
bool ReduceOp::mayStayWide(unsigned) { return false; }
Widening ReduceOp::getWidening() {
  return getKind() == graph::ReduceKind::Sum ? Widening::Operands : Widening::None;
}

//===-- cumsum ------------------------------------------------------------===//

LogicalResult CumSumOp::verify() {
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyShape(*this, getResult(), shapeOf(getInput()), "result")))
    return failure();
  return verifyDim(*this, getDim(), shapeOf(getInput()).size(), "dimension");
}

ShardingRule CumSumOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims;
  for (auto [i, size] : llvm::enumerate(shapeOf(getInput())))
    dims.push_back(rule.factor(size, i == getDim() ? FactorKind::Whole
                                                                         : FactorKind::Parallel));
  return rule.operand(0, dims).result(0, dims).linear({0}).build();
}

OpCost CumSumOp::getCost() { return {OpKind::Reduction}; }

//===-- sum ---------------------------------------------------------------===//

ShardingRule SumOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  std::vector<int> all;
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    rule.operand(i, dims);
    all.push_back(i);
  }
  return rule.result(0, dims).linear(all).build();
}

OpCost SumOp::getCost() { return {OpKind::Elementwise}; }
