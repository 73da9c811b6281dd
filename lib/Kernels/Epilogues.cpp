#include "Epilogues.h"
#include "Updates.h"

#include "dtc/Kernels/KernelBody.h"
#include "dtc/Kernels/KernelFormation.h"

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

/// The vector of `n` elements that a value repeats in each row; null if it is anything else.
static Value repeatedRow(Value value, int64_t n) {
  auto repeated = withoutReshapes(value).getDefiningOp<graph::BroadcastOp>();
  if (!repeated || elementsOf(repeated.getInput()) != n)
    return {};
  // The innermost dimensions of what is broadcast, in their order: an element for each column.
  ArrayRef<int64_t> dims = repeated.getDims();
  int64_t first = shapeOf(repeated.getResult()).size() - dims.size();
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim != first + int64_t(i))
      return {};
  return repeated.getInput();
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
    Value vector = repeatedRow(sum.getLhs() == product ? sum.getRhs() : sum.getLhs(), n);
    return vector && isInMemory(vector) ? vector : Value();
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

//===-- on the graph ------------------------------------------------------===//

/// The contraction that makes a value and becomes a product of one matrix.
static graph::ContractOp plainContraction(Value value) {
  auto op = withoutReshapes(value).getDefiningOp<graph::ContractOp>();
  if (!op || op.getResultIndices().empty())
    return {};
  const bool isBatch = llvm::any_of(op.getResultIndices(), [&](int64_t index) {
    return llvm::is_contained(op.getLhsIndices(), index) &&
           llvm::is_contained(op.getRhsIndices(), index);
  });
  return isBatch ? graph::ContractOp() : op;
}

/// Of the matrix that it becomes: the indices of its result from the operand that has the last one.
static int64_t columnsOf(graph::ContractOp op) {
  const SmallVector<int64_t> sizes = op.getIndexSizes();
  const bool isRhs = llvm::is_contained(op.getRhsIndices(), op.getResultIndices().back());
  int64_t columns = 1;
  for (int64_t index : op.getResultIndices())
    if (llvm::is_contained(isRhs ? op.getRhsIndices() : op.getLhsIndices(), index))
      columns *= sizes[index];
  return columns;
}

/// The contraction to each row of whose result a parameter is added.
static graph::ContractOp contractionBelowBias(arith::AddFOp sum) {
  for (bool isLeft : {true, false}) {
    Value product = isLeft ? sum.getLhs() : sum.getRhs();
    Value vector;
    graph::ContractOp contraction = plainContraction(product);
    if (contraction && contraction.getResult().hasOneUse() && product.hasOneUse())
      vector = repeatedRow(isLeft ? sum.getRhs() : sum.getLhs(), columnsOf(contraction));
    if (vector && !withoutReshapes(vector).getDefiningOp())
      return contraction;
  }
  return {};
}

static bool contractionsRead(Value value, bool all) {
  auto reads = [&](Operation *user) {
    return isa<graph::ContractOp>(user) ||
           (isa<graph::ReshapeOp>(user) && contractionsRead(user->getResult(0), all));
  };
  return all ? llvm::all_of(value.getUsers(), reads) : llvm::any_of(value.getUsers(), reads);
}

static bool isGeluOfProduct(graph::ActivationOp gelu) {
  auto sum = gelu.getInput().getDefiningOp<arith::AddFOp>();
  graph::ContractOp contraction =
      sum ? contractionBelowBias(sum) : plainContraction(gelu.getInput());
  return contraction && columnsOf(contraction) % kAlignedColumns == 0 &&
         contractionsRead(gelu.getResult(), /*all=*/true);
}

static bool isGeluGradOfProduct(graph::ActivationGradOp grad) {
  graph::ContractOp contraction = plainContraction(grad.getGrad());
  return contraction && contraction.getResult().hasOneUse() && grad.getGrad().hasOneUse() &&
         columnsOf(contraction) % kAlignedColumns == 0 &&
         contractionsRead(grad.getResult(), /*all=*/false);
}

/// Whether a contraction sums over the outermost `rows` elements of what an operand has.
static bool sumsRows(graph::ContractOp op, Value operand, int64_t rows) {
  const SmallVector<int64_t> sizes = op.getIndexSizes();
  ArrayRef<int64_t> indices = op.getLhs() == operand ? op.getLhsIndices() : op.getRhsIndices();
  int64_t summed = 1;
  bool isOutermost = true;
  for (int64_t index : indices) {
    const bool isSummed = !llvm::is_contained(op.getResultIndices(), index);
    if (isSummed && !isOutermost)
      return false;
    isOutermost &= isSummed;
    summed *= isSummed ? sizes[index] : 1;
  }
  return summed == rows && plainContraction(op.getResult());
}

static bool rowsAreContracted(Value value, int64_t rows) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    if (isa<graph::ReshapeOp>(use.getOwner()))
      return rowsAreContracted(use.getOwner()->getResult(0), rows);
    auto op = dyn_cast<graph::ContractOp>(use.getOwner());
    return op && getElementTypeOrSelf(op.getResult()).isF32() && sumsRows(op, value, rows);
  });
}

/// The gradient of a bias, beside that of the weight.
static bool isSumBesideProduct(graph::ReduceOp reduce) {
  if (reduce.getKind() != graph::ReduceKind::Sum || !getElementTypeOrSelf(reduce.getType()).isF32())
    return false;
  int64_t rows = 1;
  for (auto [i, dim] : llvm::enumerate(reduce.getDims())) {
    if (dim != int64_t(i))
      return false;
    rows *= shapeOf(reduce.getInput())[dim];
  }
  Value value = withoutReshapes(reduce.getInput());
  if (auto widened = value.getDefiningOp<arith::ExtFOp>())
    value = withoutReshapes(widened.getIn());
  return rows > 1 && rowsAreContracted(value, rows);
}

bool isPartOfProduct(Operation *op, const target::Target &target) {
  if (!target.matmulLimits().epilogues || op->getNumResults() != 1 ||
      getElementTypeOrSelf(op->getResult(0)).isF64())
    return false;
  if (auto sum = dyn_cast<arith::AddFOp>(op))
    return contractionBelowBias(sum) != nullptr;
  if (auto reduce = dyn_cast<graph::ReduceOp>(op))
    return isSumBesideProduct(reduce);
  if (!mayBecomeEpilogue(op))
    return false;
  if (auto gelu = dyn_cast<graph::ActivationOp>(op))
    return isGeluOfProduct(gelu);
  return isGeluGradOfProduct(cast<graph::ActivationGradOp>(op));
}

//===-- on products -------------------------------------------------------===//

void foldEpilogues(func::FuncOp function, const target::Target &target) {
  EpilogueFolder folder(function, target);
  for (auto op : llvm::to_vector(function.getBody().front().getOps<exec::MatmulOp>()))
    folder.fold(op);
}

} // namespace dtc::kernels
