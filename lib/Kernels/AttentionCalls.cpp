#include "AttentionCalls.h"

#include "Clusters.h"
#include "EachFunction.h"
#include "StridedView.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Kernels/Passes.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::kernels {
#define GEN_PASS_DEF_ATTENTIONCALLS
#include "dtc/Kernels/Passes.h.inc"

using graph::shapeOf;

namespace {

/// Query, key, value, output and gradients have a head's elements last.
constexpr size_t kRank = 4;

/// What lies in memory of its own, whoever reads it: no kernel that could make a part of it.
bool isStored(Value value) {
  Operation *made = exec::bufferRoot(value).getDefiningOp();
  return !made || !isPrimitive(made);
}

class AttentionRewriter {
public:
  AttentionRewriter(Operation *op, int64_t alignment)
      : op(op), builder(op), alignment(alignment), computed(op->getNumResults()) {}

  void rewrite() {
    const bool hasBias = biasOf(op) != nullptr; // it is the last operand
    SmallVector<std::optional<StridedView>> parts;
    for (Value operand : op->getOperands().drop_back(hasBias))
      parts.push_back(partRead(operand));
    parts.resize(op->getNumOperands());
    for (auto [operand, part] : llvm::zip_equal(op->getOperands(), parts))
      addInput(operand, part && isReadWhole(part->base, parts) ? part : std::nullopt);
    for (OpResult result : op->getResults())
      if (!isPlaced(result))
        join(concatOf(result));
    for (OpResult result : op->getResults())
      if (!isPlaced(result)) {
        computed[result.getResultNumber()] = {wholeOf(result), made.size()};
        made.push_back(result);
      }
    replace();
  }

private:
  struct Computed {
    exec::PlaceAttr place;
    size_t into = 0; ///< the result of the call
  };

  static Value biasOf(Operation *op) {
    if (auto forward = dyn_cast<graph::AttentionOp>(op))
      return forward.getBias();
    auto backward = dyn_cast<graph::AttentionGradOp>(op);
    return backward ? backward.getBias() : Value();
  }

  bool isPlaced(OpResult result) const {
    return computed[result.getResultNumber()].place != nullptr;
  }

  exec::PlaceAttr placeOf(Value tensor, const StridedView &view) {
    return exec::PlaceAttr::get(op->getContext(), view.offset, shapeOf(tensor), view.strides);
  }
  exec::PlaceAttr wholeOf(Value tensor) { return placeOf(tensor, denseView(tensor)); }

  /// The view if the library takes such a part.
  std::optional<StridedView> taken(Value tensor, const StridedView &view) const {
    ArrayRef<int64_t> shape = shapeOf(tensor);
    auto place =
        shape.size() == kRank ? sharding::alignedRows(shape, view, alignment) : std::nullopt;
    return place ? std::optional(StridedView{*place, view.base}) : std::nullopt;
  }

  /// The part of a stored tensor that an operand is.
  std::optional<StridedView> partRead(Value operand) const {
    StridedView view = traceView(operand);
    return view.base != operand && isStored(view.base) ? taken(operand, view) : std::nullopt;
  }

  /// Whether all of a tensor is read. Else it would stay in memory for the backward pass, where a
  /// copy of the part is all that has to.
  bool isReadWhole(Value base, ArrayRef<std::optional<StridedView>> parts) const {
    SmallVector<int64_t> offsets;
    int64_t elements = 0;
    for (auto [operand, part] : llvm::zip_equal(op->getOperands(), parts))
      if (part && part->base == base && !llvm::is_contained(offsets, part->offset)) {
        offsets.push_back(part->offset);
        elements += elementsOf(operand);
      }
    return elements >= elementsOf(base);
  }

  void addInput(Value operand, const std::optional<StridedView> &part) {
    inputs.push_back(part ? part->base : operand);
    places.push_back(part ? placeOf(operand, *part) : wholeOf(operand));
  }

  /// The concatenation that a result becomes a part of, if that is all that it is for.
  static graph::ConcatOp concatOf(Value result) {
    while (result.hasOneUse()) {
      Operation *reader = *result.user_begin();
      if (auto concat = dyn_cast<graph::ConcatOp>(reader))
        return concat;
      if (!isa<graph::ReshapeOp, graph::TransposeOp>(reader))
        break;
      result = reader->getResult(0);
    }
    return {};
  }

  /// Has results written to where a concatenation would copy them, if it has no other parts.
  void join(graph::ConcatOp concat) {
    if (!concat)
      return;
    StridedView whole = denseView(concat.getResult());
    SmallVector<std::pair<OpResult, StridedView>> parts;
    for (Value part : concat.getInputs()) {
      auto place = part.hasOneUse() ? placeOfSource(part, whole) : std::nullopt;
      auto result = place ? dyn_cast<OpResult>(place->base) : OpResult();
      if (!result || result.getOwner() != op || !result.hasOneUse() ||
          !(place = taken(result, *place)))
        return;
      parts.emplace_back(result, *place);
      whole.offset += shapeOf(part)[concat.getDim()] * whole.strides[concat.getDim()];
    }
    for (const auto &[result, place] : parts)
      computed[result.getResultNumber()] = {placeOf(result, place), made.size()};
    made.push_back(concat.getResult());
  }

  void replace() {
    SmallVector<int64_t> into;
    for (const Computed &each : computed) {
      places.push_back(each.place);
      into.push_back(static_cast<int64_t>(each.into));
    }
    auto call = [&](auto attention, bool isBackward) {
      return exec::AttentionOp::create(builder, op->getLoc(), TypeRange(ValueRange(made)), inputs,
                                       isBackward, attention.getScale(), attention.getCausal(),
                                       attention.getWindowAttr(), builder.getArrayAttr(places),
                                       into);
    };
    exec::AttentionOp called =
        TypeSwitch<Operation *, exec::AttentionOp>(op)
            .Case([&](graph::AttentionOp forward) { return call(forward, false); })
            .Case<graph::AttentionGradOp, graph::AttentionPartGradOp>(
                [&](auto backward) { return call(backward, true); })
            .Default([](Operation *) -> exec::AttentionOp { llvm_unreachable("no attention"); });
    called->setDiscardableAttrs(llvm::to_vector(op->getDiscardableAttrs()));
    for (auto [before, result] : llvm::zip_equal(made, called.getResults()))
      before.replaceAllUsesWith(result);
    eraseUnread();
  }

  /// Concatenations go first, which read the views of results.
  void eraseUnread() {
    for (Value before : made)
      if (before.getDefiningOp() != op)
        before.getDefiningOp()->erase();
    SmallVector<Operation *> views = {op};
    for (size_t i = 0; i < views.size(); ++i)
      llvm::append_range(views, views[i]->getUsers());
    for (Operation *view : llvm::reverse(views))
      view->erase();
  }

  Operation *op;
  OpBuilder builder;
  int64_t alignment;
  SmallVector<Value> inputs;
  SmallVector<Attribute> places;  ///< of inputs, then of what is computed
  SmallVector<Computed> computed; ///< by result of the op
  SmallVector<Value> made;        ///< what the results of the call replace
};

struct AttentionCalls : impl::AttentionCallsBase<AttentionCalls> {
  void runOnOperation() override {
    if (failed(onEachFunction(getOperation(), callAttention)))
      signalPassFailure();
  }
};

} // namespace

LogicalResult callAttention(func::FuncOp function, const target::Target &target) {
  SmallVector<Operation *> attention;
  function.walk([&](Operation *op) {
    if (target.staysWhole(op) && target::isAttention(op))
      attention.push_back(op);
  });
  for (Operation *op : attention)
    AttentionRewriter(op, target.attentionAlignment()).rewrite();
  if (!attention.empty())
    eraseDeadViews(function);
  return success();
}

} // namespace dtc::kernels
