#include "Rules.h"

using namespace mlir;

namespace dtc::graph {

OpRule::OpRule(Operation *op, UnitFactors units) : units(units) {
  rule.operands.resize(op->getNumOperands());
  rule.results.resize(op->getNumResults());
}

FactorId OpRule::factor(int64_t size, FactorKind kind, sharding::ReduceKind reduce) {
  bool omitted = size == 1 && units == UnitFactors::Omitted;
  ids.push_back(omitted ? -1 : static_cast<FactorId>(rule.factors.size()));
  if (!omitted)
    rule.factors.push_back({size, kind, reduce});
  return ids.size() - 1;
}

SmallVector<FactorId> OpRule::factors(ArrayRef<int64_t> sizes, FactorKind kind) {
  return llvm::map_to_vector(sizes, [&](int64_t size) { return factor(size, kind); });
}

std::vector<FactorId> OpRule::inRule(ArrayRef<FactorId> factors) const {
  std::vector<FactorId> kept;
  for (FactorId id : factors)
    if (ids[id] >= 0)
      kept.push_back(ids[id]);
  return kept;
}

OpRule &OpRule::operand(unsigned index, ArrayRef<FactorId> dims) {
  for (FactorId id : dims)
    operandCompound(index, id);
  return *this;
}

OpRule &OpRule::result(unsigned index, ArrayRef<FactorId> dims) {
  for (FactorId id : dims)
    resultCompound(index, id);
  return *this;
}

OpRule &OpRule::operandCompound(unsigned index, ArrayRef<FactorId> factors) {
  rule.operands[index].push_back(inRule(factors));
  return *this;
}

OpRule &OpRule::resultCompound(unsigned index, ArrayRef<FactorId> factors) {
  rule.results[index].push_back(inRule(factors));
  return *this;
}

OpRule &OpRule::linear(std::vector<int> operands) {
  rule.linear.push_back(std::move(operands));
  return *this;
}

Value shardOffset(OpBuilder &builder, const LocalContext &context,
                  const sharding::TensorFactors &dims, int64_t dim) {
  for (FactorId id : dims[dim])
    if (!context.sharding.factors[id].empty())
      return context.offset(builder, id);
  return {};
}

Value shiftIndices(OpBuilder &builder, Location loc, Value indices, Value offset) {
  auto type = cast<RankedTensorType>(indices.getType());
  auto scalar = RankedTensorType::get({}, type.getElementType());
  if (offset.getType() != scalar)
    offset = arith::TruncIOp::create(builder, loc, scalar, offset);
  Value spread = offset;
  if (type.getRank() > 0)
    spread = BroadcastOp::create(builder, loc, type, offset, ArrayRef<int64_t>());
  return arith::SubIOp::create(builder, loc, indices, spread);
}

} // namespace dtc::graph
