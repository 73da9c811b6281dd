// Updates in parts, so that the device never has all states of a large parameter.
#include "dtc/Dialect/Exec/Part.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Lower/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dtc::lower {
#define GEN_PASS_DEF_CUTOFFLOADED
#include "dtc/Lower/Passes.h.inc"

namespace {

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

Type partType(Value value, int64_t elements) {
  return RankedTensorType::get({elements}, getElementTypeOrSelf(value));
}

/// An optimizer op with the commits and conversions of what it makes.
class PassingUpdate {
public:
  explicit PassingUpdate(Operation *update)
      : update(update), elements(elementsOf(update->getResult(0))) {
    add(update);
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (!isMade(operand) && elementsOf(operand) == elements)
          inputs.insert({operand, Value()});
  }

  /// Bytes of the states of an element that lie on the host.
  int64_t bytesOnHost(func::FuncOp function) const {
    int64_t bits = 0;
    for (const auto &[input, flat] : inputs)
      if (auto argument = dyn_cast<BlockArgument>(graph::withoutReshapes(input)))
        if (function.getArgAttr(argument.getArgNumber(), dist::DistDialect::kOnHost))
          bits += getElementTypeOrSelf(input).getIntOrFloatBitWidth();
    return bits / 8;
  }

  int64_t getElements() const { return elements; }

  /// False where an op that belongs to it reads what is only made behind it.
  bool isReady() const {
    return llvm::all_of(ops, [&](Operation *op) {
      return llvm::all_of(op->getOperands(), [&](Value operand) {
        Operation *maker = operand.getDefiningOp();
        return !maker || isMade(operand) || maker->isBeforeInBlock(update);
      });
    });
  }

  /// In parts of so many elements, the last one with what is left. One element alone would be a
  /// scalar, and a kernel would take it with those of other parameters: it stays with the last
  /// part.
  void cut(int64_t ofPart) {
    graph::TensorBuilder b(builder, update->getLoc());
    builder.setInsertionPoint(update);
    for (auto &[input, flat] : inputs)
      flat = b.reshape(input, {elements});
    llvm::MapVector<Value, SmallVector<Value>> made; ///< parts of what others read
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (!llvm::all_of(result.getUsers(), [&](Operation *user) { return has(user); }))
          made[result];
    for (int64_t begin = 0, count; begin < elements; begin += count) {
      count = elements - begin > ofPart + 1 ? ofPart : elements - begin;
      IRMapping parts = updatePart(begin, count);
      for (auto &[whole, list] : made)
        list.push_back(parts.lookup(whole));
    }
    for (auto &[whole, list] : made) {
      auto join = graph::ConcatOp::create(builder, whole.getLoc(), partType(whole, elements), list,
                                          /*dim=*/0);
      join->setAttr(exec::kPart, builder.getUnitAttr());
      whole.replaceAllUsesWith(b.reshape(join, graph::shapeOf(whole)));
    }
    for (Operation *op : llvm::reverse(ops)) {
      op->dropAllUses();
      op->erase();
    }
  }

private:
  bool has(Operation *op) const { return llvm::is_contained(ops, op); }
  bool isMade(Value value) const { return value.getDefiningOp() && has(value.getDefiningOp()); }

  void add(Operation *op) {
    ops.push_back(op);
    for (Operation *user : op->getUsers())
      if (isa<graph::CommitOp, arith::ExtFOp, arith::TruncFOp>(user) && !has(user))
        add(user);
  }

  IRMapping updatePart(int64_t begin, int64_t count) {
    IRMapping mapping;
    for (const auto &[input, flat] : inputs) {
      auto slice = graph::SliceOp::create(builder, input.getLoc(), partType(input, count), flat,
                                          ArrayRef<int64_t>(begin), ArrayRef<int64_t>(1));
      slice->setAttr(exec::kPart, builder.getUnitAttr());
      mapping.map(input, slice.getResult());
    }
    for (Operation *op : ops) {
      Operation *clone = builder.clone(*op, mapping);
      clone->removeAttr(graph::GraphDialect::kId);
      clone->removeAttr(graph::GraphDialect::kBackward);
      for (Value result : clone->getResults())
        result.setType(partType(result, count));
    }
    return mapping;
  }

  Operation *update;
  OpBuilder builder{update->getContext()};
  int64_t elements;
  SmallVector<Operation *> ops;
  llvm::MapVector<Value, Value> inputs; ///< of as many elements, in one dimension
};

struct CutOffloaded : impl::CutOffloadedBase<CutOffloaded> {
  using CutOffloadedBase::CutOffloadedBase;

  void cutUpdates(func::FuncOp function) {
    SmallVector<Operation *> updates;
    for (Operation &op : function.getOps())
      if (isa<graph::AdamUpdateOp, graph::SgdUpdateOp>(op))
        updates.push_back(&op);
    for (Operation *op : updates) {
      PassingUpdate update(op);
      const int64_t bytes = update.bytesOnHost(function);
      if (bytes == 0)
        continue;
      const int64_t ofPart = schedule::passingElements(bytes, partBytes);
      if (ofPart + 1 < update.getElements() && update.isReady())
        update.cut(ofPart);
    }
  }

  void runOnOperation() override {
    if (partBytes < 1) {
      getOperation().emitError("a part must have some bytes, got: ") << partBytes.getValue();
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        cutUpdates(function);
  }
};

} // namespace
} // namespace dtc::lower
