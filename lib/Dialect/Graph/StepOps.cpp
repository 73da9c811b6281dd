#include "dtc/Dialect/Graph/StepOps.h"

#include "Rules.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::sharding;
using namespace dtc::graph;

LogicalResult StepVectorOp::verify() {
  const unsigned least = kSquares + 1 + getCountsLost();
  if (getNumOperands() < least)
    return emitOpError("needs at least ") << least << " numbers: " << getNumOperands();
  return success();
}

/// What is pending is completed before: terms may differ in it.
ShardingRule StepVectorOp::buildShardingRule(UnitFactors) {
  return RuleBuilder(static_cast<int>(getNumOperands()), static_cast<int>(getNumResults())).build();
}

OpCost StepVectorOp::getCost() { return {OpKind::View}; }

/// Of one rank they are what they are.
FailureOr<SmallVector<Value>> StepVectorOp::decompose(OpBuilder &) {
  return SmallVector<Value>(getInputs());
}

/// Elementwise; the number of faults has no dimensions.
ShardingRule CommitOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  return rule.operand(0, dims).operand(1, dims).result(0, dims).build();
}

OpCost CommitOp::getCost() { return {OpKind::Elementwise}; }

FailureOr<SmallVector<Value>> CommitOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value isClean = b.compare(arith::CmpFPredicate::OEQ, getFaults(), 0.0);
  isClean = b.broadcast(isClean, {}, shapeOf(getResult()));
  return SmallVector<Value>{b.select(isClean, getFresh(), getOld())};
}

/// On a dtc.parameter.
static constexpr llvm::StringLiteral kInitial = "dtc.initial";

void dtc::graph::setInitial(ParameterOp buffer, double value) {
  buffer->setAttr(kInitial, Builder(buffer.getContext()).getF64FloatAttr(value));
}

std::optional<double> dtc::graph::initialOf(ParameterOp parameter) {
  auto value = parameter->getAttrOfType<FloatAttr>(kInitial);
  return value ? std::optional(value.getValueAsDouble()) : std::nullopt;
}

//===-- lost rows ---------------------------------------------------------===//

static constexpr StringLiteral kDropped = "dropped_tokens", kOverflow = "overflow";

RoleAttr dtc::graph::lostRowsRole(MLIRContext *context, const LostRows &rows) {
  std::string name = (rows.areDropped ? kDropped : kOverflow).str();
  if (!rows.layer.empty())
    name += ":" + rows.layer;
  return RoleAttr::get(context, RoleKind::Count, name, std::nullopt, std::nullopt);
}

std::optional<LostRows> dtc::graph::lostRowsOf(RoleKind kind, StringRef role) {
  if (kind != RoleKind::Count)
    return std::nullopt;
  auto [name, layer] = role.split(':');
  if (name != kDropped && name != kOverflow)
    return std::nullopt;
  return LostRows{name == kDropped, layer.str()};
}

std::optional<LostRows> dtc::graph::lostRowsOf(RoleAttr role) {
  return role ? lostRowsOf(role.getKind(), role.getName()) : std::nullopt;
}

//===-- gradients of chunks -----------------------------------------------===//

static constexpr StringLiteral kOfChunk = " of chunk ";

RoleAttr dtc::graph::gradientOfChunk(RoleAttr gradient, int chunk) {
  return RoleAttr::get(gradient.getContext(), RoleKind::Gradient,
                       (gradient.getName() + kOfChunk + Twine(chunk)).str(), std::nullopt,
                       std::nullopt);
}

StringRef dtc::graph::weightOf(RoleKind kind, StringRef name) {
  auto [weight, chunk] = name.rsplit(kOfChunk);
  const bool isOfChunk = !chunk.empty() && llvm::all_of(chunk, llvm::isDigit);
  return kind == RoleKind::Gradient && isOfChunk ? weight : name;
}

StringRef dtc::graph::weightOf(RoleAttr role) { return weightOf(role.getKind(), role.getName()); }

//===-- sums --------------------------------------------------------------===//

bool dtc::graph::isSummedUp(RoleKind kind, StringRef name) {
  std::optional<LostRows> rows = lostRowsOf(kind, name);
  return kind == RoleKind::Gradient || kind == RoleKind::Loss || (rows && !rows->layer.empty());
}

bool dtc::graph::isSummedUp(RoleAttr role) {
  return role && isSummedUp(role.getKind(), role.getName());
}
