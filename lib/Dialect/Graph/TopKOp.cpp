#include "Rules.h"
#include "Verify.h"
#include "dtc/Dialect/Graph/TokenChoices.h"

using namespace mlir;

namespace dtc::graph {

LogicalResult TopKOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  if (from.empty())
    return emitOpError() << "input must have a dimension to choose from: rank 0";
  Type i64 = IntegerType::get(getContext(), 64);
  if (failed(verifyFloat(*this, getInput(), "input")) ||
      failed(verifyElementType(*this, getResult(), i64, "result")) ||
      failed(verifyRank(*this, getResult(), from.size(), "result")))
    return failure();
  if (to.back() < 1 || to.back() > from.back())
    return emitOpError() << "must choose between 1 and " << from.back()
                         << " elements of a row: " << to.back();
  Shape shape(from.drop_back());
  shape.push_back(to.back());
  return verifyShape(*this, getResult(), shape, "result");
}

ShardingRule TopKOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> rows = rule.factors(shapeOf(getInput()).drop_back());
  FactorId elements = rule.factor(shapeOf(getInput()).back(), FactorKind::Whole);
  FactorId chosen = rule.factor(shapeOf(getResult()).back(), FactorKind::Whole);
  return rule.operand(0, rows).operand(0, elements).result(0, rows).result(0, chosen).build();
}

OpCost TopKOp::getCost() { return {OpKind::Reduction}; }

std::optional<int64_t> choicesOfToken(Value choices) {
  if (auto best = withoutReshapes(choices).getDefiningOp<TopKOp>())
    return shapeOf(best).back();
  return std::nullopt;
}

} // namespace dtc::graph
