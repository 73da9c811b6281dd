// Gives a graph exported with one batch size another one.
//
// From dimension 0 of every input the batch is followed (BatchTrace.h) until every dimension that
// contains it is known; then types change. What cannot follow is refused by name.
//
// A batch of one is followed downwards only, and what does not depend on an input is repeated
// where it meets the batch.
#include "BatchTrace.h"
#include "dtc/Raise/Passes.h"

#include "dtc-io/CheckedSize.h"
#include "dtc/Dialect/Graph/StepFunctions.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_REBATCH
#include "dtc/Raise/Passes.h.inc"

namespace {

class Rebatcher {
public:
  Rebatcher(func::FuncOp func, int64_t batch, bool isCut, bool isOpen, ArrayRef<std::string> whole)
      : func(func), batch(batch), isCut(isCut), whole(whole),
        trace(func, BatchTrace::Ends::Refused, "cannot change the batch", adviceFor(isOpen)) {}

  LogicalResult run() {
    if (failed(trace.start(whole)))
      return failure();
    if (trace.size() == batch || trace.size() == 0)
      return success();
    if (failed(trace.propagate()) || failed(checkSources()) || failed(checkSizes()))
      return failure();
    retype();
    return success();
  }

private:
  /// A file that takes any batch has all samples of a step in one call, where nothing cuts it.
  static std::optional<std::string> adviceFor(bool isOpen) {
    if (!isOpen)
      return std::nullopt;
    return "; without a micro_batch, and with a --global-batch that the ranks divide, it stays as "
           "it is";
  }
  LogicalResult checkSources();
  LogicalResult checkSizes();
  void retype();
  void retypeResult(OpResult result);
  void repeatOperands(Operation *op);

  RankedTensorType rebatched(Value value) const {
    Shape shape(tensorType(value).getShape());
    const BatchPlace at = *trace.placeIn(value);
    shape[at.dim] = at.outer * batch * at.inner;
    return tensorType(value).clone(shape);
  }
  DenseElementsAttr sampleOf(DenseElementsAttr elements, const BatchPlace &at) const;
  Value repeated(Emitter &emit, Value value, const BatchPlace &at) const;

  func::FuncOp func;
  int64_t batch;
  bool isCut;
  ArrayRef<std::string> whole; ///< inputs without samples
  BatchTrace trace;
};

} // namespace

static bool sameBits(const APInt &one, const APInt &other) { return one == other; }
static bool sameBits(const APFloat &one, const APFloat &other) { return one.bitwiseIsEqual(other); }

/// What `elements` has for one of `samples`, in the shape of `type`. Null: not all have the same.
template <typename Number>
static DenseElementsAttr ofOneSample(DenseElementsAttr elements, const BatchPlace &at,
                                     int64_t samples, RankedTensorType type) {
  const SmallVector<Number> values = llvm::to_vector(elements.getValues<Number>());
  const int64_t size = at.inner * product(type.getShape().drop_front(size_t(at.dim) + 1));
  const auto same = [](const Number &one, const Number &other) { return sameBits(one, other); };
  SmallVector<Number> result;
  for (ArrayRef<Number> left = values; !left.empty(); left = left.drop_front(samples * size)) {
    const ArrayRef<Number> first = left.take_front(size);
    for (int64_t i = 1; i < samples; ++i)
      if (!llvm::equal(first, left.slice(i * size, size), same))
        return {};
    result.append(first.begin(), first.end());
  }
  return DenseElementsAttr::get(type, result);
}

/// Of a constant that files repeat for each sample, as masks of windows. Null: its samples differ.
DenseElementsAttr Rebatcher::sampleOf(DenseElementsAttr elements, const BatchPlace &at) const {
  Shape shape(elements.getType().getShape());
  shape[at.dim] = at.outer * at.inner;
  const Type element = elements.getElementType();
  const auto type = RankedTensorType::get(shape, element);
  if (elements.isSplat())
    return elements.resizeSplat(type);
  return isa<FloatType>(element) ? ofOneSample<APFloat>(elements, at, trace.size(), type)
                                 : ofOneSample<APInt>(elements, at, trace.size(), type);
}

/// Parameters may not contain the batch, and constants only where all samples have the same.
LogicalResult Rebatcher::checkSources() {
  for (BlockArgument argument : func.getArguments()) {
    auto role = graph::getArgRole(func, argument.getArgNumber());
    if (trace.placeIn(argument) && role.getKind() != graph::RoleKind::Input)
      return trace.refuse(func.getLoc(), "it is a dimension of " + Twine(role.getName()));
  }
  WalkResult result = func.walk([&](Operation *op) {
    if (op->getNumResults() != 1 || !trace.placeIn(op->getResult(0)))
      return WalkResult::advance();
    const BatchPlace at = *trace.placeIn(op->getResult(0));
    DenseElementsAttr elements;
    if (matchPattern(op, m_Constant(&elements)) && !sampleOf(elements, at)) {
      (void)trace.refuse(op->getLoc(), "this constant varies along it");
      return WalkResult::interrupt();
    }
    auto iota = dyn_cast<graph::IotaOp>(op);
    if (iota && int64_t(iota.getDim()) == at.dim && (at.outer != 1 || at.inner != 1)) {
      (void)trace.refuse(op->getLoc(), "it is a part of an index range");
      return WalkResult::interrupt();
    }
    if (iota && int64_t(iota.getDim()) == at.dim && isCut) {
      (void)trace.refuse(op->getLoc(), "this counts the samples, and each call begins anew");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// The batch comes from the command line: with it no size may overflow.
LogicalResult Rebatcher::checkSizes() {
  constexpr int64_t kWidestElement = 8; // bytes
  for (const auto &[value, at] : trace.all()) {
    Shape shape(tensorType(value).getShape());
    shape[at.dim] = 1;
    if (!(io::CheckedSize::product(shape) * at.outer * at.inner * batch * kWidestElement))
      return func.emitError() << "tensors would have too many elements with the batch " << batch;
  }
  return success();
}

/// A value without samples, once for each: [inner] becomes [batch, inner], merged again where the
/// batch is part of a dimension.
Value Rebatcher::repeated(Emitter &emit, Value value, const BatchPlace &at) const {
  Shape shape(tensorType(value).getShape()), dims;
  Shape split(shape.begin(), shape.begin() + at.dim), full = split;
  split.append({at.outer, at.inner});
  full.append({at.outer, batch, at.inner});
  for (int64_t i = 0; i < int64_t(full.size()) + int64_t(shape.size()) - at.dim - 1; ++i)
    if (i != at.dim + 1)
      dims.push_back(i);
  split.append(shape.begin() + at.dim + 1, shape.end());
  full.append(shape.begin() + at.dim + 1, shape.end());
  shape[at.dim] = at.outer * batch * at.inner;
  return reshape(emit, broadcastAlong(emit, reshape(emit, value, split), full, dims), shape);
}

/// A batch of one: operands without it that meet it are repeated.
void Rebatcher::repeatOperands(Operation *op) {
  if (isa<graph::ReshapeOp, graph::BroadcastOp>(op))
    return;
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return;
  const sharding::ShardingRule rule = ruled.getRuleWithUnits();
  std::optional<BatchFactor> factor;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (auto at = trace.placeIn(result))
      factor = factorOf(rule, rule.results[i], *at, trace.size());
  if (!factor)
    return;
  Emitter emit(op->getLoc(), OpBuilder(op));
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    auto at = placeOf(rule, rule.operands[operand.getOperandNumber()], *factor);
    if (!at || trace.placeIn(value))
      continue;
    operand.set(repeated(emit, value, *at));
  }
}

void Rebatcher::retypeResult(OpResult result) {
  DenseElementsAttr elements;
  if (!matchPattern(result, m_Constant(&elements)))
    return result.setType(rebatched(result));
  const BatchPlace at = *trace.placeIn(result);
  const RankedTensorType type = rebatched(result);
  if (elements.isSplat()) {
    result.getOwner()->setAttr("value", elements.resizeSplat(type));
    return result.setType(type);
  }
  Operation *op = result.getOwner();
  const DenseElementsAttr sample = sampleOf(elements, at);
  op->setAttr("value", sample);
  result.setType(cast<RankedTensorType>(sample.getType()));
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Emitter emit(op->getLoc(), builder);
  const SmallVector<OpOperand *> readers(llvm::make_pointer_range(result.getUses()));
  const Value all = repeated(emit, result, at);
  for (OpOperand *reader : readers)
    reader->set(all);
}

void Rebatcher::retype() {
  SmallVector<Operation *> ops;
  func.getBody().walk([&](Operation *op) { ops.push_back(op); });
  if (trace.size() == 1)
    for (Operation *op : ops)
      repeatOperands(op);
  for (BlockArgument argument : func.getArguments())
    if (trace.placeIn(argument))
      argument.setType(rebatched(argument));
  for (Operation *op : ops)
    for (OpResult result : op->getResults())
      if (trace.placeIn(result))
        retypeResult(result);
  Operation *end = func.getBody().front().getTerminator();
  func.setType(FunctionType::get(func.getContext(), func.getBody().getArgumentTypes(),
                                 end->getOperandTypes()));
}

namespace {
struct Rebatch : impl::RebatchBase<Rebatch> {
  using RebatchBase::RebatchBase;

  void runOnOperation() override {
    auto func = graph::findFunction(getOperation(), graph::kForward);
    if (!func || func.isExternal())
      return;
    if (batch < 1) {
      func.emitError() << "the batch must be positive: " << batch.getValue();
      return signalPassFailure();
    }
    if (isCut) { // what nobody reads counts nothing
      IRRewriter rewriter(func.getContext());
      (void)runRegionDCE(rewriter, func->getRegions());
    }
    if (failed(Rebatcher(func, batch, isCut, isOpen, llvm::to_vector(whole)).run()))
      signalPassFailure();
  }
};
} // namespace

} // namespace dtc::raise
