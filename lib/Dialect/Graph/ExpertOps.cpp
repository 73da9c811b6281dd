#include "ContractIndices.h"
#include "Rules.h"
#include "Verify.h"

#include <numeric>

using namespace mlir;

namespace dtc::graph {

/// Among how many ranks experts and rows can both be shared out evenly.
static int64_t partsOf(int64_t experts, int64_t rows) { return std::gcd(experts, rows); }

/// Rows that have slots are in parts already, a dimension of its own.
static int64_t partsOf(GroupedContractOp op) {
  ArrayRef<int64_t> choices = shapeOf(op.getChoices());
  return choices.size() == 2 ? partsOf(op.getIndexSizes()[op.getExperts()], choices[1]) : 1;
}

/// The factor of the parts where `rows`, the dimension of rows that belong to experts, has one.
static FactorId partsIn(const std::vector<FactorId> &rows, int64_t parts) {
  return parts > 1 ? rows.front() : -1;
}

int expertsFactor(Operation *op, const ShardingRule &rule) {
  auto partsOfExchange = [](auto op) { return partsOf(op.getExperts(), shapeOf(op)[1]); };
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    return partsIn(rule.results[0][1], partsOfExchange(dispatch));
  if (auto combine = dyn_cast<CombineOp>(op))
    return partsIn(rule.operands[0][1], partsOfExchange(combine));
  if (auto grouped = dyn_cast<GroupedContractOp>(op))
    return partsIn(rule.operands[2][1], partsOf(grouped));
  return -1;
}

static FailureOr<SmallVector<Value>> cloneUnlessSplit(Operation *op, OpBuilder &builder,
                                                      ValueRange operands, TypeRange resultTypes,
                                                      const LocalContext &context) {
  FactorId parts = expertsFactor(op, context.rule);
  if (parts >= 0 && !context.sharding.factors[parts].empty())
    return op->emitOpError("has experts on several ranks, which cannot exchange rows yet: ")
           << context.mesh.size(context.sharding.factors[parts]) << " parts";
  return cloneLocal(op, builder, operands, resultTypes);
}

//===-- dispatch and combine ----------------------------------------------===//

static LogicalResult verifyExchange(Operation *op, Value input, Value choices, int64_t experts) {
  if (shapeOf(input).size() < 2)
    return op->emitOpError() << "input must have samples and rows: rank " << shapeOf(input).size();
  if (experts < 1)
    return op->emitOpError() << "must have experts: " << experts;
  if (failed(verifyIndices(op, choices, "choices")))
    return failure();
  return verifyShape(op, choices, shapeOf(input).take_front(2), "choices");
}

LogicalResult DispatchOp::verify() {
  return verifyExchange(*this, getInput(), getChoices(), getExperts());
}
LogicalResult CombineOp::verify() {
  return verifyExchange(*this, getInput(), getChoices(), getExperts());
}

namespace {
/// Dimensions [sample, row, ...]: rows in their own order, which are seen whole, and the same
/// rows by experts.
struct ExchangeFactors {
  ExchangeFactors(OpRule &rule, ArrayRef<int64_t> shape, int64_t experts) {
    int64_t count = partsOf(experts, shape[1]);
    sample = rule.factor(shape[0]);
    ordered = rule.factor(shape[1], FactorKind::Whole);
    byExperts = {rule.factor(count), rule.factor(shape[1] / count, FactorKind::Whole)};
    rest = rule.factors(shape.drop_front(2));
  }
  FactorId sample, ordered;
  SmallVector<FactorId> byExperts, rest;
};
} // namespace

ShardingRule DispatchOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  ExchangeFactors dims(rule, shapeOf(getInput()), getExperts());
  rule.operand(0, {dims.sample, dims.ordered}).operand(0, dims.rest);
  rule.operand(1, {dims.sample, dims.ordered});
  rule.result(0, dims.sample).resultCompound(0, dims.byExperts).result(0, dims.rest);
  return rule.linear({0}).build();
}

ShardingRule CombineOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  ExchangeFactors dims(rule, shapeOf(getInput()), getExperts());
  rule.operand(0, dims.sample).operandCompound(0, dims.byExperts).operand(0, dims.rest);
  rule.operand(1, {dims.sample, dims.ordered});
  rule.result(0, {dims.sample, dims.ordered}).result(0, dims.rest);
  return rule.linear({0}).build();
}

FailureOr<SmallVector<Value>> DispatchOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                     TypeRange resultTypes,
                                                     const LocalContext &context) {
  return cloneUnlessSplit(*this, builder, operands, resultTypes, context);
}

FailureOr<SmallVector<Value>> CombineOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                    TypeRange resultTypes,
                                                    const LocalContext &context) {
  return cloneUnlessSplit(*this, builder, operands, resultTypes, context);
}

OpCost DispatchOp::getCost() { return {OpKind::Lookup}; }
OpCost CombineOp::getCost() { return {OpKind::Lookup}; }

//===-- grouped_contract --------------------------------------------------===//

static SmallVector<IndexedTensor, 4> tensorsOf(GroupedContractOp op) {
  return {{op.getLhs(), op.getLhsIndices(), "left operand"},
          {op.getRhs(), op.getRhsIndices(), "right operand"},
          {op.getResult(), op.getResultIndices(), "result"},
          {op.getChoices(), op.getChoiceIndices(), "choices"}};
}

/// Where the experts and the rows are: each in its own of lhs, rhs and result, parts in all.
static LogicalResult verifyPlaces(GroupedContractOp op) {
  int64_t experts = op.getExperts();
  if (shapeOf(op.getChoices()).size() < 2)
    return op.emitOpError() << "choices must have samples and rows: rank "
                            << shapeOf(op.getChoices()).size();
  for (int64_t index : op.getChoiceIndices())
    if (index == experts)
      return op.emitOpError() << "choices must not have the index of the experts: " << index;
  int withExperts = 0;
  SmallVector<int64_t> parts = partIndices(op);
  for (ArrayRef<int64_t> tensor :
       {op.getLhsIndices(), op.getRhsIndices(), op.getResultIndices()}) {
    bool counts = llvm::is_contained(tensor, experts);
    withExperts += counts;
    for (int64_t index : op.getChoiceIndices())
      if (llvm::is_contained(tensor, index) == counts && !llvm::is_contained(parts, index))
        return op.emitOpError() << "of left operand, right operand and result each must have "
                                   "either the experts or the choices' index: "
                                << index;
  }
  if (withExperts != 1)
    return op.emitOpError() << "one of left operand, right operand and result must have the "
                               "experts: "
                            << withExperts;
  return success();
}

LogicalResult GroupedContractOp::verify() {
  if (failed(verifySameElementType(*this, getRhs(), getLhs(), "right operand")) ||
      failed(verifySameOrWider(*this, getResult(), getLhs(), "result")) ||
      failed(verifyIndices(*this, getChoices(), "choices")))
    return failure();
  if (failed(verifyIndexSizes(*this, tensorsOf(*this), /*numbering=*/3)) ||
      failed(verifyPlaces(*this)))
    return failure();
  auto count = static_cast<int64_t>(getIndexSizes().size());
  for (int64_t index = 0; index < count; ++index) {
    int tensors = llvm::is_contained(getLhsIndices(), index) +
                  llvm::is_contained(getRhsIndices(), index) +
                  llvm::is_contained(getResultIndices(), index);
    if (index != static_cast<int64_t>(getExperts()) && tensors < 2)
      return emitOpError() << "must not be in one of left operand, right operand and result "
                              "alone, index: "
                           << index;
  }
  return success();
}

SmallVector<int64_t> GroupedContractOp::getIndexSizes() { return sizesByIndex(tensorsOf(*this)); }

ShardingRule GroupedContractOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<int64_t> sizes = getIndexSizes();
  int64_t experts = getExperts(), row = getChoiceIndices().back(), count = partsOf(*this);
  FactorId parts = rule.factor(count);
  SmallVector<SmallVector<FactorId>> dims(sizes.size());
  for (auto [i, size] : llvm::enumerate(sizes)) {
    auto index = static_cast<int64_t>(i);
    bool kept = llvm::is_contained(getResultIndices(), index);
    FactorKind kind = kept ? FactorKind::Parallel : FactorKind::Reduction;
    if (index == experts)
      dims[i] = {parts, rule.factor(size / count, FactorKind::Whole)};
    else if (index == row)
      dims[i] = {parts, rule.factor(size / count, kind)};
    else
      dims[i] = {rule.factor(size, kind)};
  }
  for (int64_t index : getLhsIndices())
    rule.operandCompound(0, dims[index]);
  for (int64_t index : getRhsIndices())
    rule.operandCompound(1, dims[index]);
  for (int64_t index : getChoiceIndices())
    rule.operandCompound(2, dims[index]);
  for (int64_t index : getResultIndices())
    rule.resultCompound(0, dims[index]);
  return rule.linear({0}).linear({1}).build();
}

FailureOr<SmallVector<Value>> GroupedContractOp::buildLocal(OpBuilder &builder,
                                                            ValueRange operands,
                                                            TypeRange resultTypes,
                                                            const LocalContext &context) {
  return cloneUnlessSplit(*this, builder, operands, resultTypes, context);
}

OpCost GroupedContractOp::getCost() {
  double flops = 2;
  for (auto [index, size] : llvm::enumerate(getIndexSizes()))
    flops *= index == getExperts() ? 1 : size;
  return {.kind = OpKind::Contraction, .flops = flops};
}

} // namespace dtc::graph
