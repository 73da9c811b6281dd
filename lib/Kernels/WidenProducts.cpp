#include "WidenProducts.h"

#include "Simplify.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/MergeDuplicates.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Target/LibraryRecords.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dtc::kernels {
namespace {

bool isProduct(Operation *op) { return isa<graph::ContractOp>(op) || target::isConv(op); }

/// Whether a value needs no memory beside what it is a part of, or repeats.
bool isView(Operation *op) {
  return isa_and_present<graph::BroadcastOp, graph::ReshapeOp>(op) ||
         (isa_and_present<graph::SliceOp>(op) && !op->getOperand(0).hasOneUse());
}

/// Whether several read a value, or the parameter that it is another form of.
bool isShared(Value value) {
  if (!value.hasOneUse())
    return true;
  Value whole = graph::withoutReshapes(value);
  return isa<BlockArgument>(whole) && !whole.hasOneUse();
}

/// What several read is there in half precision. Views of it are made again for each.
Value keptNarrow(OpBuilder &builder, Value value, bool isKept) {
  if (!isKept)
    return value;
  SmallVector<Operation *> views;
  for (; isView(value.getDefiningOp()); value = views.back()->getOperand(0))
    views.push_back(value.getDefiningOp());
  // The outermost is a broadcast or a slice: a reshape of what is made here is as good as that.
  while (!views.empty() && isa<graph::ReshapeOp>(views.back()))
    value = views.pop_back_val()->getResult(0);
  value = graph::BarrierOp::create(builder, value.getLoc(), value.getType(), value);
  for (Operation *view : llvm::reverse(views)) {
    IRMapping mapping;
    mapping.map(view->getOperand(0), value);
    value = builder.clone(*view, mapping)->getResult(0);
  }
  return value;
}

/// Whether a value is constant or repeated along some dimensions.
bool isRepeated(Value value) {
  Operation *maker = value.getDefiningOp();
  if (maker && isa<arith::ExtFOp, arith::TruncFOp>(maker))
    maker = maker->getOperand(0).getDefiningOp();
  return maker && isa<graph::BroadcastOp, arith::ConstantOp>(maker);
}

/// Whether the only reader of a value does arithmetic on it and on what is repeated along its
/// dimensions, as a bias. Kernels do that again wherever they need it.
bool isReadByCheapOp(Value value) {
  if (!value.hasOneUse())
    return false;
  Operation *reader = *value.user_begin();
  return graph::isElementwise(reader) && reader->getNumResults() == 1 &&
         llvm::all_of(reader->getOperands(),
                      [&](Value operand) { return operand == value || isRepeated(operand); });
}

class Widening {
public:
  Widening(func::FuncOp function, const target::Target &target) : target(target) {
    for (Operation &op : function.getBody().front()) {
      productsBefore[&op] = products.size();
      if (isProduct(&op))
        products.push_back(&op);
    }
  }

  void run() {
    for (Operation *product : products)
      if (multipliesCopies(product, target))
        widen(product);
  }

private:
  /// Whether a kernel behind the next product computes what it needs of a result. What several
  /// read, a product or the function's caller among them, is stored as soon as it is made.
  bool isReadLate(Operation *product) const {
    Value value = product->getResult(0);
    while (isReadByCheapOp(value))
      value = (*value.user_begin())->getResult(0);
    auto isStored = [&](Operation *reader) {
      return reader->hasTrait<OpTrait::IsTerminator>() || (isProduct(reader) && !value.hasOneUse());
    };
    auto isLate = [&](Operation *reader) {
      return productsBefore.lookup(reader) > productsBefore.lookup(product) + 1;
    };
    return llvm::none_of(value.getUsers(), isStored) && llvm::any_of(value.getUsers(), isLate);
  }

  void widen(Operation *op) {
    Type half = getElementTypeOrSelf(op->getOperand(0));
    OpBuilder builder(op);
    graph::TensorBuilder b(builder, op->getLoc());
    for (OpOperand &operand : op->getOpOperands()) {
      Value narrow = keptNarrow(builder, operand.get(), isShared(operand.get()));
      operand.set(b.convert(narrow, builder.getF32Type()));
    }
    Value result = op->getResult(0);
    auto type = cast<RankedTensorType>(result.getType());
    if (type.getElementType() != half)
      return;
    const bool isKept = !result.hasOneUse() || isReadLate(op);
    result.setType(type.clone(builder.getF32Type()));
    builder.setInsertionPointAfter(op);
    Value rounded = b.convert(result, half);
    result.replaceAllUsesExcept(keptNarrow(builder, rounded, isKept), rounded.getDefiningOp());
  }

  const target::Target &target;
  llvm::DenseMap<Operation *, size_t> productsBefore; ///< of the ops that were there before
  std::vector<Operation *> products;
};

} // namespace

bool multipliesCopies(Operation *op, const target::Target &target) {
  const bool isAttention = isa<graph::AttentionOp, graph::AttentionGradOp>(op);
  if (!isProduct(op) && !(isAttention && !target.staysWhole(op)))
    return false;
  Type half = getElementTypeOrSelf(op->getOperand(0));
  return isHalf(half) && !target.multiplies(half);
}

void widenProducts(func::FuncOp function, const target::Target &target) {
  auto needs = [&](Operation &op) { return multipliesCopies(&op, target); };
  if (llvm::none_of(function.getOps(), needs))
    return;
  graph::mergeDuplicates(function);
  Widening(function, target).run();
}

} // namespace dtc::kernels
