// More tokens behind those of each sample, so that ranks can share them.
//
//   %x = dtc.gather %w, %ids                 [8,33,64]     33 tokens, which two ranks can't share
//   %o = dtc.attention %q, %k, %v causal     [8,33,4,16]
// becomes
//   %more = dtc.concat 1 (%ids, %last)       [8,36]        the last token, four times in all
//   %x = dtc.gather %w, %more                [8,36,64]
//   %o = dtc.attention %q, %k, %v causal     [8,36,4,16]
//
// Whatever lies along the tokens is lengthened so: tables of positions, angles, constants. Nothing
// of the model's own tokens changes where every op computes each token by itself, and attention
// sees earlier ones alone. Where the loss ignores the tokens behind, their gradients are zeros.
#include "BatchPlace.h"
#include "dtc/Raise/Passes.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StopGradientOp.h"
#include "dtc/Dialect/Graph/TokenPadding.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_PADTOKENS
#include "dtc/Raise/Passes.h.inc"

static bool isTokenInput(func::FuncOp func, BlockArgument argument) {
  auto role = graph::getArgRole(func, argument.getArgNumber());
  return role && role.getKind() == graph::RoleKind::Input &&
         isa<IntegerType>(elementOf(argument)) && tensorType(argument).getRank() == 2;
}

/// Of the integer inputs; 0 where they have no tokens, or differ.
static int64_t tokensOf(func::FuncOp func) {
  int64_t tokens = 0;
  for (BlockArgument argument : func.getArguments()) {
    if (!isTokenInput(func, argument))
      continue;
    const int64_t size = graph::shapeOf(argument)[1];
    if (tokens != 0 && tokens != size)
      return 0;
    tokens = size;
  }
  return tokens;
}

namespace {

/// Follows the tokens through the graph in both directions, as the batch is followed
/// (BatchTrace.h). Backwards they end where something else begins to lie along them, as a table of
/// positions.
class TokenPadder {
public:
  TokenPadder(func::FuncOp func, int64_t own, int64_t padded, StringRef purpose)
      : func(func), own(own), padded(padded), purpose(purpose) {}

  LogicalResult trace();
  void lengthen();

private:
  LogicalResult visit(Operation *op);
  LogicalResult visitReshape(graph::ReshapeOp op);
  LogicalResult visitAttention(graph::AttentionOp op);
  LogicalResult place(Value value, const BatchPlace &at);
  LogicalResult checkOutputs();
  std::optional<BatchFactor> factorOfOp(Operation *op, StringRef &why);
  bool begins(Value value);
  Value lengthened(Value value, const BatchPlace &at);
  void lengthenSource(Value value, const BatchPlace &at);
  RankedTensorType longer(Value value, const BatchPlace &at) const {
    Shape shape(tensorType(value).getShape());
    shape[at.dim] = at.outer * padded * at.inner;
    return tensorType(value).clone(shape);
  }

  bool isPlaced(Value value) const { return places.contains(value); }
  LogicalResult refuse(Location at, const Twine &why) const {
    emitWarning(at) << purpose << ": " << why;
    return failure();
  }

  func::FuncOp func;
  int64_t own, padded;
  StringRef purpose;
  llvm::MapVector<Value, BatchPlace> places;
  bool changed = false;
};

} // namespace

/// Ops whose rules say all about what a token has to do with others. Draws by place, choices among
/// tokens and slots of experts are none of them.
static bool isRuled(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) ||
         isa<graph::GatherOp, graph::ActivationOp, graph::SoftmaxOp, graph::LayerNormOp,
             graph::RmsNormOp, graph::ReduceOp, graph::ContractOp, graph::IotaOp,
             graph::BroadcastOp, graph::TransposeOp, graph::SliceOp, graph::PadOp, graph::ConcatOp,
             graph::SumOp, graph::StopGradientOp>(op);
}

LogicalResult TokenPadder::place(Value value, const BatchPlace &at) {
  auto [entry, isNew] = places.insert({value, at});
  changed |= isNew;
  if (entry->second == at)
    return success();
  return refuse(value.getLoc(), "it compares tokens with each other");
}

LogicalResult TokenPadder::visitReshape(graph::ReshapeOp op) {
  auto move = [&](Value from, Value to) {
    return moveThroughReshape(places.find(from)->second, graph::shapeOf(from), graph::shapeOf(to),
                              own);
  };
  if (isPlaced(op.getInput())) {
    auto moved = move(op.getInput(), op.getResult());
    return moved ? place(op.getResult(), *moved)
                 : refuse(op->getLoc(), "the reshape takes the sequence apart");
  }
  if (!isPlaced(op.getResult()))
    return success();
  auto moved = move(op.getResult(), op.getInput());
  return moved ? place(op.getInput(), *moved) : success();
}

/// Query i sees the keys up to i + t - s, which stay the same where both grow alike.
LogicalResult TokenPadder::visitAttention(graph::AttentionOp op) {
  if (llvm::none_of(op->getOperands(), [&](Value value) { return isPlaced(value); }))
    return success();
  if (!op.getCausal())
    return refuse(op->getLoc(), "attention lets tokens see later ones");
  if (op.getBias())
    return refuse(op->getLoc(), "attention has a bias");
  if (graph::shapeOf(op.getKey())[1] != own || graph::shapeOf(op.getQuery())[1] != own)
    return refuse(op->getLoc(), "attention is to other tokens");
  const BatchPlace sequence{1, 1, 1}, rows{2, 1, 1};
  for (Value value : {op.getQuery(), op.getKey(), op.getValue(), op.getResult()})
    if (failed(place(value, sequence)))
      return failure();
  return place(op.getLse(), rows);
}

/// The factor of the rule that the tokens are; nothing where the op doesn't carry them on.
std::optional<BatchFactor> TokenPadder::factorOfOp(Operation *op, StringRef &why) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled || !isRuled(op)) {
    why = "the operation isn't known to leave tokens apart";
    return std::nullopt;
  }
  const sharding::ShardingRule rule = ruled.getRuleWithUnits();
  std::optional<BatchFactor> factor;
  auto isOfOne = [&](ValueRange values, ArrayRef<sharding::TensorFactors> dims) {
    for (auto [value, of] : llvm::zip_equal(values, dims)) {
      if (!isPlaced(value))
        continue;
      auto found = factorOf(rule, of, places.find(value)->second, own);
      if (!found || (factor && *factor != *found))
        return false;
      factor = found;
    }
    return true;
  };
  why = "the operation mixes tokens";
  if (!isOfOne(op->getOperands(), rule.operands) || !isOfOne(op->getResults(), rule.results) ||
      rule.factors[factor->factor].kind != sharding::FactorKind::Parallel)
    return std::nullopt;
  for (const sharding::TensorFactors &dims : rule.results)
    if (!placeOf(rule, dims, *factor))
      return std::nullopt;
  // Places behind the last one would be numbers that no model has seen.
  auto iota = dyn_cast<graph::IotaOp>(op);
  if (iota && placeOf(rule, rule.results[0], *factor)->dim == int64_t(iota.getDim()))
    return std::nullopt;
  return factor;
}

LogicalResult TokenPadder::visit(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return success();
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
    return visitReshape(reshape);
  if (auto attention = dyn_cast<graph::AttentionOp>(op))
    return visitAttention(attention);
  auto isKnown = [&](Value value) { return isPlaced(value); };
  const bool isRead = llvm::any_of(op->getOperands(), isKnown);
  if (!isRead && llvm::none_of(op->getResults(), isKnown))
    return success();
  StringRef why;
  auto factor = factorOfOp(op, why);
  if (!factor)
    return isRead ? refuse(op->getLoc(), why) : success();
  const sharding::ShardingRule rule = cast<ShardingRuleOpInterface>(op).getRuleWithUnits();
  auto placeAll = [&](ValueRange values, ArrayRef<sharding::TensorFactors> dims) {
    for (auto [value, of] : llvm::zip_equal(values, dims))
      if (auto at = placeOf(rule, of, *factor); at && failed(place(value, *at)))
        return failure();
    return success();
  };
  return failure(failed(placeAll(op->getOperands(), rule.operands)) ||
                 failed(placeAll(op->getResults(), rule.results)));
}

LogicalResult TokenPadder::checkOutputs() {
  for (OpOperand &operand : func.getBody().front().getTerminator()->getOpOperands()) {
    const Value output = operand.get();
    auto role = graph::getResultRole(func, operand.getOperandNumber());
    if (!role || role.getKind() != graph::RoleKind::Output)
      return refuse(output.getLoc(), "a step changes more than parameters");
    auto found = places.find(output);
    const bool areBetween = tensorType(output).getRank() > 2; // and are no classes of a loss
    if (found == places.end() || !(found->second == BatchPlace{1, 1, 1}) || !areBetween)
      return refuse(output.getLoc(), "an output hasn't the tokens between samples and features");
  }
  return success();
}

LogicalResult TokenPadder::trace() {
  for (BlockArgument argument : func.getArguments())
    if (isTokenInput(func, argument) && failed(place(argument, {1, 1, 1})))
      return failure();
  SmallVector<Operation *> ops(
      llvm::make_pointer_range(func.getBody().front().without_terminator()));
  if (failed(visitUntilSettled(ops, changed, /*backwards=*/true,
                               [&](Operation *op) { return visit(op); })))
    return failure();
  return checkOutputs();
}

/// Whether tokens lie along a value and along nothing that it is made of.
bool TokenPadder::begins(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (isa<graph::ReshapeOp, graph::AttentionOp>(op))
    return !isPlaced(op->getOperand(0));
  StringRef why;
  return !factorOfOp(op, why);
}

/// With copies of the last token's part behind it: they are as finite as those.
Value TokenPadder::lengthened(Value value, const BatchPlace &at) {
  OpBuilder builder(func.getContext());
  builder.setInsertionPointAfterValue(value);
  Emitter emit(value.getLoc(), builder);
  Shape apart(tensorType(value).getShape());
  int64_t dim = at.dim;
  if (at.outer != 1 || at.inner != 1) {
    apart[dim] = at.outer;
    apart.insert(apart.begin() + dim + 1, {own, at.inner});
    ++dim;
  }
  Shape without = apart, copied = apart, whole = apart, dims;
  without.erase(without.begin() + dim);
  copied[dim] = padded - own;
  whole[dim] = padded;
  for (int64_t i = 0; i < int64_t(apart.size()); ++i)
    if (i != dim)
      dims.push_back(i);
  Value split = reshape(emit, value, apart);
  Value last = reshape(emit, sliceDim(emit, split, dim, own - 1, 1), without);
  Value copies = broadcastAlong(emit, last, copied, dims);
  auto joined =
      graph::ConcatOp::create(emit, tensorType(value).clone(whole), ValueRange{split, copies}, dim);
  joined->setAttr(graph::kTokenPadding, emit.getUnitAttr());
  return reshape(emit, joined, longer(value, at).getShape());
}

void TokenPadder::lengthenSource(Value value, const BatchPlace &at) {
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat()) {
    const RankedTensorType type = longer(value, at);
    value.getDefiningOp()->setAttr("value", elements.resizeSplat(type));
    return value.setType(type);
  }
  const SmallVector<OpOperand *> readers(llvm::make_pointer_range(value.getUses()));
  const Value all = lengthened(value, at);
  for (OpOperand *reader : readers)
    reader->set(all);
}

void TokenPadder::lengthen() {
  SmallVector<Value> sources;
  for (const auto &[value, at] : places)
    if (begins(value))
      sources.push_back(value);
  for (auto [value, at] : places)
    if (!llvm::is_contained(sources, value))
      value.setType(longer(value, at));
  for (Value source : sources)
    lengthenSource(source, places.find(source)->second);
  func.setType(FunctionType::get(func.getContext(), func.getArgumentTypes(),
                                 func.getBody().front().getTerminator()->getOperandTypes()));
  func->setAttr(graph::kOwnTokens, OpBuilder(func.getContext()).getI64IntegerAttr(own));
}

/// Lengthens the samples so that each rank has a chunk from either end of them (zig-zag), and notes
/// how many tokens are their own. Where that isn't exact the function stays as it is.
static void padTokens(func::FuncOp func, int64_t ranks) {
  const int64_t own = tokensOf(func);
  if (own <= 1 || own % ranks == 0)
    return;
  const std::string purpose = "the " + std::to_string(own) +
                              " tokens of a sample aren't padded for cp=" + std::to_string(ranks);
  TokenPadder padder(func, own, llvm::alignTo(own, 2 * ranks), purpose);
  if (succeeded(padder.trace()))
    padder.lengthen();
}

namespace {
struct PadTokens : impl::PadTokensBase<PadTokens> {
  using PadTokensBase::PadTokensBase;

  void runOnOperation() override {
    if (auto func = graph::findFunction(getOperation(), graph::kForward); func && ranks > 1)
      padTokens(func, ranks);
  }
};
} // namespace

} // namespace dtc::raise
