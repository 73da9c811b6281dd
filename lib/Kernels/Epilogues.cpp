#include "Epilogues.h"
#include "Updates.h"

#include "dtc/Kernels/KernelBody.h"

using namespace mlir;

namespace dtc::kernels {

using exec::Epilogue;
using graph::shapeOf;
using graph::withoutReshapes;

/// The rows of a matrix that GELU reads begin at multiples of so many elements.
static constexpr int64_t kAlignedColumns = 8;

static bool isTanhGelu(graph::Activation kind) { return kind == graph::Activation::GeluTanh; }

static bool isContraction(Value value) {
  return isa_and_nonnull<graph::ContractOp>(withoutReshapes(value).getDefiningOp());
}

bool mayBecomeEpilogue(Operation *op) {
  if (auto grad = dyn_cast<graph::ActivationGradOp>(op))
    return isTanhGelu(grad.getKind()) && isContraction(grad.getGrad());
  auto activation = dyn_cast<graph::ActivationOp>(op);
  if (!activation || !isTanhGelu(activation.getKind()))
    return false;
  auto sum = activation.getInput().getDefiningOp<arith::AddFOp>();
  return sum ? isContraction(sum.getLhs()) || isContraction(sum.getRhs())
             : isContraction(activation.getInput());
}

namespace {

/// The sizes of a product that may have an epilogue: one matrix, whose rows follow each other.
struct Sizes {
  int64_t m, n, k;
};

std::optional<Sizes> plainSizes(exec::MatmulOp op) {
  Sizes sizes{op.getMnk()[0], op.getMnk()[1], op.getMnk()[2]};
  Type type = getElementTypeOrSelf(op.getLhs());
  bool isPlain = !op.getEpilogue() && op.getBatch().empty() && sizes.m > 1 && sizes.n > 1 &&
                 op.getResultStrides() == ArrayRef<int64_t>{sizes.n, 1} &&
                 (type.isF32() || type.isBF16() || type.isF16());
  return isPlain ? std::optional(sizes) : std::nullopt;
}

/// What reshapes that nothing else reads make of a value.
Value afterReshapes(Value value) {
  while (value.hasOneUse() && isa<graph::ReshapeOp>(*value.user_begin()))
    value = value.user_begin()->getResult(0);
  return value;
}

/// Two of a value's uses would need it in memory beside the sum.
template <typename Op> Op onlyUser(Value value) {
  return value.hasOneUse() ? dyn_cast<Op>(*value.user_begin()) : Op();
}

class EpilogueFolder {
public:
  EpilogueFolder(func::FuncOp function, const target::Target &target)
      : target(target), builder(function.getContext()) {}

  void fold(exec::MatmulOp op) {
    std::optional<Sizes> sizes = plainSizes(op);
    if (!sizes || foldGrad(op, *sizes) || foldForward(op, *sizes))
      return;
    foldSums(op, *sizes);
  }

private:
  /// Made by no kernel, so that a library may read it where it is.
  bool isInMemory(Value value) const {
    Operation *op = withoutReshapes(value).getDefiningOp();
    return !op || staysInFunction(op, target);
  }

  bool isStored(Operation *user) const {
    if (isa<graph::ReshapeOp>(user))
      return feedsLibrariesOnly(user->getResult(0));
    return staysInFunction(user, target);
  }
  bool feedsLibrariesOnly(Value value) const {
    return llvm::all_of(value.getUsers(), [&](Operation *user) { return isStored(user); });
  }

  /// The vector that `sum` adds to each row of a value; null if it adds something else.
  Value biasOf(arith::AddFOp sum, Value product, int64_t n) const {
    Value other = sum.getLhs() == product ? sum.getRhs() : sum.getLhs();
    auto repeated = withoutReshapes(other).getDefiningOp<graph::BroadcastOp>();
    if (!repeated || !isInMemory(repeated.getInput()) || elementsOf(repeated.getInput()) != n)
      return {};
    // The innermost dimensions of what is broadcast, in their order: an element for each column.
    ArrayRef<int64_t> dims = repeated.getDims();
    int64_t first = shapeOf(repeated.getResult()).size() - dims.size();
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim != first + int64_t(i))
        return {};
    return repeated.getInput();
  }

  exec::MatmulOp rebuild(exec::MatmulOp op, Epilogue epilogue, Type type, Value extra, Type also) {
    auto made = exec::MatmulOp::create(builder, op.getLoc(), type, also, op.getLhs(), op.getRhs(),
                                       extra, op.getBatch(), op.getMnk(), op.getLhsStrides(),
                                       op.getRhsStrides(), op.getResultStrides(), op.getOffsets(),
                                       exec::EpilogueAttr::get(builder.getContext(), epilogue));
    made->setDiscardableAttrs(llvm::to_vector(op->getDiscardableAttrs()));
    return made;
  }

  /// Erases an op that nothing reads any more, and what only it has read, up to `op`.
  void eraseUpTo(Operation *last, exec::MatmulOp op) {
    while (last != op.getOperation()) {
      Operation *before = nullptr;
      for (Value operand : last->getOperands())
        if (withoutReshapes(operand) == op.getResult() && !before)
          before = operand.getDefiningOp();
      last->erase();
      last = before ? before : op.getOperation();
    }
    op.erase();
  }

  graph::ActivationOp geluOf(Value sum, int64_t n) const {
    for (Operation *user : sum.getUsers()) {
      auto gelu = dyn_cast<graph::ActivationOp>(user);
      if (gelu && isTanhGelu(gelu.getKind()) && n % kAlignedColumns == 0 &&
          feedsLibrariesOnly(gelu.getResult()))
        return gelu;
    }
    return {};
  }

  bool foldForward(exec::MatmulOp op, const Sizes &sizes) {
    Value sum = afterReshapes(op.getResult()), bias;
    if (auto add = onlyUser<arith::AddFOp>(sum))
      if ((bias = biasOf(add, sum, sizes.n)))
        sum = add.getResult();
    graph::ActivationOp gelu = geluOf(sum, sizes.n);
    if (!bias && !gelu)
      return false;
    Operation *last = sum.getDefiningOp();
    builder.setInsertionPointAfter(last);
    Epilogue epilogue = !gelu ? Epilogue::Bias : bias ? Epilogue::BiasGelu : Epilogue::Gelu;
    bool keepsInput = gelu && !sum.hasOneUse();
    auto made = rebuild(op, epilogue, sum.getType(), bias, keepsInput ? sum.getType() : Type());
    if (gelu) {
      gelu.getResult().replaceAllUsesWith(made.getResult());
      gelu.erase();
    }
    if (!sum.use_empty())
      sum.replaceAllUsesWith(gelu ? made.getAlso() : made.getResult());
    eraseUpTo(last, op);
    return true;
  }

  /// product * gelu'(input), which products read.
  bool foldGrad(exec::MatmulOp op, const Sizes &sizes) {
    Value product = afterReshapes(op.getResult());
    auto grad = onlyUser<graph::ActivationGradOp>(product);
    if (!grad || !isTanhGelu(grad.getKind()) || grad.getGrad() != product ||
        sizes.n % kAlignedColumns != 0 || !isInMemory(grad.getInput()) ||
        llvm::none_of(grad->getUsers(), [&](Operation *user) { return isStored(user); }))
      return false;
    builder.setInsertionPoint(grad);
    auto made = rebuild(op, Epilogue::GeluGrad, grad.getType(), grad.getInput(), Type());
    grad.getResult().replaceAllUsesWith(made.getResult());
    eraseUpTo(grad, op);
    return true;
  }

  /// The sum over all of the leading dimensions, `rows` elements, of `value` in the type of
  /// `result`; found behind reshapes and a conversion.
  graph::ReduceOp sumOver(Value value, int64_t rows, Type element) const {
    for (Operation *user : value.getUsers()) {
      if (isa<graph::ReshapeOp, arith::ExtFOp>(user)) {
        if (graph::ReduceOp found = sumOver(user->getResult(0), rows, element))
          return found;
        continue;
      }
      auto reduce = dyn_cast<graph::ReduceOp>(user);
      if (!reduce || reduce.getKind() != graph::ReduceKind::Sum ||
          getElementTypeOrSelf(reduce.getType()) != element)
        continue;
      int64_t reduced = 1;
      bool isLeading = true;
      for (auto [i, dim] : llvm::enumerate(reduce.getDims())) {
        isLeading &= dim == int64_t(i);
        reduced *= shapeOf(reduce.getInput())[dim];
      }
      if (isLeading && reduced == rows)
        return reduce;
    }
    return {};
  }

  /// Where a product may stand that makes what `reduce` makes; null if nowhere.
  static Operation *placeFor(exec::MatmulOp op, graph::ReduceOp reduce) {
    if (llvm::all_of(reduce->getUsers(),
                     [&](Operation *user) { return op->isBeforeInBlock(user); }))
      return op;
    bool isThere = llvm::all_of(op->getOperands(), [&](Value operand) {
      Operation *maker = operand.getDefiningOp();
      return !maker || maker->isBeforeInBlock(reduce);
    });
    return isThere ? reduce.getOperation() : nullptr;
  }

  /// sum_k of an operand, dense, beside its product in f32.
  void foldSums(exec::MatmulOp op, const Sizes &sizes) {
    Type element = getElementTypeOrSelf(op.getResult());
    if (!element.isF32() || sizes.k < 2)
      return;
    auto [m, n, k] = sizes;
    bool isLhsDense = op.getLhsStrides() == ArrayRef<int64_t>{1, m} && op.getOffsets()[0] == 0 &&
                      elementsOf(op.getLhs()) == m * k;
    bool isRhsDense = op.getRhsStrides() == ArrayRef<int64_t>{n, 1} && op.getOffsets()[1] == 0 &&
                      elementsOf(op.getRhs()) == n * k;
    for (auto [operand, isDense, epilogue] : {std::tuple(op.getRhs(), isRhsDense, Epilogue::SumRhs),
                                              {op.getLhs(), isLhsDense, Epilogue::SumLhs}}) {
      graph::ReduceOp reduce =
          isDense ? sumOver(withoutReshapes(operand), k, element) : graph::ReduceOp();
      Operation *place = reduce ? placeFor(op, reduce) : nullptr;
      if (!place)
        continue;
      builder.setInsertionPoint(place);
      auto made = rebuild(op, epilogue, op.getResult().getType(), Value(), reduce.getType());
      op.getResult().replaceAllUsesWith(made.getResult());
      reduce.getResult().replaceAllUsesWith(made.getAlso());
      reduce.erase();
      op.erase();
      return;
    }
  }

  const target::Target &target;
  OpBuilder builder;
};

} // namespace

void foldEpilogues(func::FuncOp function, const target::Target &target) {
  EpilogueFolder folder(function, target);
  for (auto op : llvm::to_vector(function.getBody().front().getOps<exec::MatmulOp>()))
    folder.fold(op);
}

} // namespace dtc::kernels
