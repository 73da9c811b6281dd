#include "PadDimension.h"

#include "dtc/Dialect/Graph/FilledView.h"
#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Dialect/Graph/ZeroRows.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {
namespace {

constexpr int64_t kLeastShare = 64; ///< elements for each that is added, where no price is known

int64_t paddedTo(int64_t size, int64_t multiple, int64_t leastShare) {
  const auto padded = int64_t(llvm::alignTo(uint64_t(size), uint64_t(multiple)));
  return (padded - size) * leastShare > size ? size : padded;
}

int64_t leastShareOf(const HiddenPadding &padding) { return padding.isPriced ? 1 : kLeastShare; }

/// What a value has in the elements that are added to it. No content at all: it can't have any.
enum class Content : uint8_t { Zero, Finite };
using MaybeContent = std::optional<Content>;

Content allZero(Content a, Content b) { return std::max(a, b); }

bool keepsZero(Activation kind) {
  switch (kind) {
  case Activation::Relu:
  case Activation::Gelu:
  case Activation::GeluTanh:
  case Activation::Silu:
  case Activation::HardSwish:
  case Activation::Relu6:
    return true;
  case Activation::Sigmoid:
  case Activation::Softplus:
  case Activation::HardSigmoid:
    return false;
  }
  return false;
}

/// The number that all elements have, however many there are.
DenseElementsAttr numberOf(Value value) {
  auto spread = value.getDefiningOp<BroadcastOp>();
  DenseElementsAttr number;
  bool isNumber = matchPattern(spread ? spread.getInput() : value, m_Constant(&number)) &&
                  number.isSplat() && isa<FloatType>(number.getElementType()) &&
                  number.getSplatValue<APFloat>().isFinite();
  return isNumber ? number : DenseElementsAttr();
}

/// The dimension of a reshape's input that is the result's: as long, and of as many elements each.
std::optional<int64_t> dimThrough(ReshapeOp op, int64_t dim) {
  ArrayRef<int64_t> from = shapeOf(op.getInput()), to = shapeOf(op.getResult());
  const int64_t before = ShapedType::getNumElements(to.take_front(dim));
  for (int64_t i = 0; i < int64_t(from.size()); ++i)
    if (from[i] == to[dim] && ShapedType::getNumElements(from.take_front(i)) == before)
      return i;
  return std::nullopt;
}

/// What has a dimension. Its elements come in as many units everywhere, as the heads of queries do
/// that share one of the keys.
class DimensionPadder {
public:
  DimensionPadder(func::FuncOp function, int64_t units, int64_t padded)
      : symbols(function->getParentOfType<ModuleOp>()), function(function), units(units),
        padded(padded) {}

  /// Notes a value that has the dimension, and all that it is made of.
  MaybeContent collect(Value value, int64_t dim) {
    if (auto known = values.find(value); known != values.end())
      return known->second.dim == dim ? MaybeContent(known->second.content) : std::nullopt;
    Operation *op = value.getDefiningOp();
    const bool isResult = op && op->getResult(0) == value && shapeOf(value)[dim] % units == 0;
    MaybeContent content = isResult ? contentOf(op, dim) : std::nullopt;
    if (content)
      values[value] = {dim, *content};
    return content;
  }

  /// Notes the products with parameters that sum over the dimension, of values with zeros there.
  /// What else reads such a value has the dimension too, as all layers do that share a bias.
  bool collectReaders() {
    for (size_t i = 0; i < values.size(); ++i) { // which grow
      const auto [value, place] = values.begin()[i];
      for (OpOperand &use : value.getUses())
        if (!uses.contains(&use) && !collectReader(use, place))
          return false;
    }
    return true;
  }

  /// Whether nothing else reads any of it. Rows may be looked up.
  bool isAll() const {
    auto isKnown = [&](OpOperand &use) { return uses.contains(&use); };
    auto isLookup = [](OpOperand &use) {
      auto lookup = dyn_cast<GatherOp>(use.getOwner());
      return lookup && use.getOperandNumber() == 0 && lookup.getAxis() == 0;
    };
    return llvm::all_of(values,
                        [&](auto &each) { return llvm::all_of(each.first.getUses(), isKnown); }) &&
           llvm::all_of(parameters, [&](auto &each) {
             return llvm::all_of(each.first.getUses(), [&](OpOperand &use) {
               return isKnown(use) || (each.second == 0 && isLookup(use));
             });
           });
  }

  /// Whether these may be padded: all are, or none is.
  bool isAmong(const HiddenPadding &padding) const {
    return !padding.among || llvm::any_of(parameters, [&](auto &each) {
      auto argument = cast<BlockArgument>(each.first);
      std::string name = getArgRole(function, argument.getArgNumber()).getName().str();
      return llvm::is_contained(*padding.among, std::pair(name, each.second));
    });
  }

  void pad() {
    annotateIndexLimits(function); // by what files have
    for (auto [parameter, dim] : parameters)
      padParameter(cast<BlockArgument>(parameter), dim);
    for (auto [use, dim] : alike)
      padAlike(*use, dim);
    for (auto [value, place] : values) {
      value.setType(typeOf(value, place.dim));
      if (Value rows = rowsBeside(value))
        rows.setType(typeOf(rows, isa<AttentionOp>(rows.getDefiningOp()) ? 1 : place.dim));
    }
  }

private:
  struct Place {
    int64_t dim;
    Content content;
  };

  RankedTensorType typeOf(Value value, int64_t dim) const {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[dim] = shape[dim] / units * padded;
    return cast<RankedTensorType>(value.getType()).clone(shape);
  }

  /// An op that isn't here can't have the dimension.
  MaybeContent contentOf(Operation *op, int64_t dim) {
    if (keepsZeroRows(op))
      return contentOfRows(op, dim);
    return llvm::TypeSwitch<Operation *, MaybeContent>(op)
        .Case<ContractOp>(
            [&](auto product) { return contentOf(product, product.getResultIndices()[dim]); })
        .Case<BroadcastOp, GatherOp, SoftmaxOp, DropoutOp, AttentionOp, ReshapeOp, SliceOp,
              ConcatOp, TransposeOp, ActivationOp>([&](auto each) { return contentOf(each, dim); })
        .Case<math::TanhOp, math::ErfOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp>(
            [&](auto each) { return collectOperand(each->getOpOperand(0), dim); })
        .Case<arith::MulFOp>([&](auto) {
          return contentOfBoth(op, dim, [](Content a, Content b) { return std::min(a, b); });
        })
        .Case<arith::AddFOp, arith::SubFOp>([&](auto) { return contentOfBoth(op, dim, allZero); })
        .Default(MaybeContent());
  }

  MaybeContent contentOfBoth(Operation *op, int64_t dim,
                             llvm::function_ref<Content(Content, Content)> combine) {
    MaybeContent a = collectOperand(op->getOpOperand(0), dim);
    MaybeContent b = a ? collectOperand(op->getOpOperand(1), dim) : std::nullopt;
    return b ? MaybeContent(combine(*a, *b)) : std::nullopt;
  }

  /// Of a parameter's own index, or one of both factors, such as the heads of scores.
  MaybeContent contentOf(ContractOp op, int64_t index) {
    auto left = llvm::find(op.getLhsIndices(), index),
         right = llvm::find(op.getRhsIndices(), index);
    if (left == op.getLhsIndices().end() || right == op.getRhsIndices().end())
      return collectFactor(op, index) ? MaybeContent(Content::Zero) : std::nullopt;
    MaybeContent a = collectOperand(op.getLhsMutable(), left - op.getLhsIndices().begin());
    MaybeContent b =
        a ? collectOperand(op.getRhsMutable(), right - op.getRhsIndices().begin()) : std::nullopt;
    return b ? MaybeContent(std::min(*a, *b)) : std::nullopt;
  }

  MaybeContent contentOf(BroadcastOp op, int64_t dim) {
    const auto *place = llvm::find(op.getDims(), dim);
    if (place == op.getDims().end())
      return std::nullopt;
    const int64_t from = place - op.getDims().begin();
    if (!isa<BlockArgument>(op.getInput()))
      return collectOperand(op.getInputMutable(), from);
    return collectParameter(op.getInputMutable(), from) ? MaybeContent(Content::Zero)
                                                        : std::nullopt;
  }

  /// Each row of a table has the dimension, as that of a bias by distance has a number for each
  /// head.
  MaybeContent contentOf(GatherOp op, int64_t dim) {
    const int64_t place = dim - int64_t(shapeOf(op.getIndices()).size());
    bool isCollected =
        op.getAxis() == 0 && place >= 0 && collectParameter(op.getTableMutable(), place + 1);
    return isCollected ? MaybeContent(Content::Zero) : std::nullopt;
  }

  MaybeContent contentOf(SoftmaxOp op, int64_t dim) {
    const bool isBeside = int64_t(op.getDim()) != dim && collectOperand(op.getInputMutable(), dim);
    return isBeside ? MaybeContent(Content::Finite) : std::nullopt;
  }

  MaybeContent contentOf(DropoutOp op, int64_t dim) {
    return isOutermost(op, dim) ? collectOperand(op.getInputMutable(), dim) : std::nullopt;
  }

  MaybeContent contentOf(ActivationOp op, int64_t dim) {
    MaybeContent input = collectOperand(op.getInputMutable(), dim);
    return input && !keepsZero(op.getKind()) ? MaybeContent(Content::Finite) : input;
  }

  /// Elements behind such a dimension keep their index in the sample, by which they are drawn.
  static bool isOutermost(DropoutOp op, int64_t dim) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    const auto batch = int64_t(op.getBatch());
    for (int64_t before = 0; before < dim; ++before)
      if (before != batch && shape[before] != 1)
        return false;
    return dim != batch;
  }

  /// Values of zero have none but zeros for a result, whatever the scores are.
  MaybeContent contentOf(AttentionOp op, int64_t dim) {
    if (dim != 2 || !op.getLse().use_empty() || !collectOperand(op.getQueryMutable(), 2) ||
        !collectOperand(op.getKeyMutable(), 2) ||
        (op.getBias() && !collectOperand(*op.getBiasMutable().begin(), 1)))
      return std::nullopt;
    return collectOperand(op.getValueMutable(), 2);
  }

  MaybeContent contentOfRows(Operation *op, int64_t dim) {
    if (dim + 1 == int64_t(shapeOf(op->getOperand(0)).size()) || !op->getResult(1).use_empty())
      return std::nullopt;
    return collectOperand(op->getOpOperand(0), dim);
  }

  // Of ops that move the dimension as a whole.

  MaybeContent contentOf(TransposeOp op, int64_t dim) {
    return collectOperand(op.getInputMutable(), op.getPerm()[dim]);
  }

  MaybeContent contentOf(ReshapeOp op, int64_t dim) {
    std::optional<int64_t> from = dimThrough(op, dim);
    return from ? collectOperand(op.getInputMutable(), *from) : std::nullopt;
  }

  MaybeContent contentOf(SliceOp op, int64_t dim) {
    const bool isWhole = shapeOf(op.getInput())[dim] == shapeOf(op.getResult())[dim];
    return isWhole ? collectOperand(op.getInputMutable(), dim) : std::nullopt;
  }

  MaybeContent contentOf(ConcatOp op, int64_t dim) {
    MaybeContent all = Content::Zero;
    for (OpOperand &part : op->getOpOperands()) {
      MaybeContent content = int64_t(op.getDim()) != dim ? collectOperand(part, dim) : std::nullopt;
      all = content && all ? MaybeContent(allZero(*all, *content)) : std::nullopt;
    }
    return all;
  }

  MaybeContent collectOperand(OpOperand &operand, int64_t dim) {
    DenseElementsAttr number = numberOf(operand.get());
    auto spread = operand.get().getDefiningOp<BroadcastOp>();
    if (number || (spread && !llvm::is_contained(spread.getDims(), dim))) {
      alike.emplace_back(&operand, dim);
      const bool isZero = number && number.getSplatValue<APFloat>().isZero();
      return isZero ? Content::Zero : Content::Finite;
    }
    uses.insert(&operand);
    return collect(operand.get(), dim);
  }

  /// The factor that alone has an index of a product: a parameter.
  bool collectFactor(ContractOp op, int64_t index) {
    const bool isLeft = llvm::is_contained(op.getLhsIndices(), index);
    if (isLeft == llvm::is_contained(op.getRhsIndices(), index) || op.getLhs() == op.getRhs())
      return false;
    return collectSide(op, isLeft, index);
  }

  bool collectSide(ContractOp op, bool isLeft, int64_t index) {
    ArrayRef<int64_t> indices = isLeft ? op.getLhsIndices() : op.getRhsIndices();
    return collectParameter(isLeft ? op.getLhsMutable() : op.getRhsMutable(),
                            llvm::find(indices, index) - indices.begin());
  }

  bool collectReader(OpOperand &use, const Place &place) {
    if (std::optional<int64_t> dim = dimBehind(use, place.dim))
      return collect(use.getOwner()->getResult(0), *dim).has_value();
    auto op = dyn_cast<ContractOp>(use.getOwner());
    if (!op || op.getLhs() == op.getRhs() || place.content != Content::Zero ||
        !collectSide(op, use.getOperandNumber() != 0, indicesOf(op, use)[place.dim]))
      return false;
    uses.insert(&use);
    return true;
  }

  static ArrayRef<int64_t> indicesOf(ContractOp op, OpOperand &use) {
    return use.getOperandNumber() == 0 ? op.getLhsIndices() : op.getRhsIndices();
  }

  /// The same dimension of the reader's result, where scores or a bias of them are read.
  static std::optional<int64_t> dimBehind(OpOperand &use, int64_t dim) {
    Operation *op = use.getOwner();
    if (isa<arith::AddFOp, arith::MulFOp, SoftmaxOp, DropoutOp>(op))
      return dim;
    if (auto attention = dyn_cast<AttentionOp>(op))
      return isBias(attention, use) ? std::optional<int64_t>(2) : std::nullopt;
    auto product = dyn_cast<ContractOp>(op);
    if (!product)
      return std::nullopt;
    auto place = llvm::find(product.getResultIndices(), indicesOf(product, use)[dim]);
    return place == product.getResultIndices().end()
               ? std::nullopt
               : std::optional<int64_t>(place - product.getResultIndices().begin());
  }

  static bool isBias(AttentionOp op, OpOperand &use) {
    return op.getBias() && &use == &*op.getBiasMutable().begin();
  }

  /// In the shape that the file has.
  bool collectParameter(OpOperand &use, int64_t dim) {
    auto argument = dyn_cast<BlockArgument>(use.get());
    if (!argument)
      return false;
    RoleAttr role = getArgRole(function, argument.getArgNumber());
    auto parameter = role.getKind() == RoleKind::Parameter
                         ? symbols.lookup<ParameterOp>(role.getName())
                         : ParameterOp();
    if (!parameter || parameter.getType() != argument.getType() ||
        filledOf(parameter) != shapeOf(argument) || shapeOf(argument)[dim] % units != 0)
      return false;
    uses.insert(&use);
    return parameters.try_emplace(argument, dim).first->second == dim;
  }

  void padParameter(BlockArgument argument, int64_t dim) {
    auto type = typeOf(argument, dim);
    makeLonger(symbols.lookup<ParameterOp>(getArgRole(function, argument.getArgNumber()).getName()),
               type);
    argument.setType(type);
  }

  /// Others may read it as it is.
  void padAlike(OpOperand &use, int64_t dim) const {
    RankedTensorType type = typeOf(use.get(), dim);
    if (DenseElementsAttr number = numberOf(use.get())) {
      OpBuilder builder(use.getOwner());
      use.set(
          arith::ConstantOp::create(builder, use.getOwner()->getLoc(), number.resizeSplat(type)));
      return;
    }
    auto spread = use.get().getDefiningOp<BroadcastOp>();
    use.set(longer(spread, type));
    if (spread.use_empty())
      spread.erase();
  }

  /// The same broadcast in a longer shape; all layers share one.
  static Value longer(BroadcastOp spread, RankedTensorType type) {
    for (Operation *user : spread.getInput().getUsers())
      if (auto other = dyn_cast<BroadcastOp>(user);
          other && other.getType() == type && other.getDims() == spread.getDims() &&
          other->getBlock() == spread->getBlock() && other->isBeforeInBlock(spread))
        return other;
    OpBuilder builder(spread);
    return BroadcastOp::create(builder, spread.getLoc(), type, spread.getInput(), spread.getDims());
  }

  /// The statistics of a value's rows, which only the backward pass reads.
  static Value rowsBeside(Value value) {
    Operation *op = value.getDefiningOp();
    return op->getNumResults() > 1 ? op->getResult(1) : Value();
  }

  SymbolTable symbols;
  func::FuncOp function;
  int64_t units, padded; ///< how many there are, and will be
  llvm::MapVector<Value, Place> values;
  llvm::MapVector<Value, int64_t> parameters;         ///< by argument: the dimension
  SmallVector<std::pair<OpOperand *, int64_t>> alike; ///< uses of what is the same along it
  DenseSet<OpOperand *> uses; ///< of values and parameters, as they are expected
};

/// What isn't a class has no share in the softmax.
Value hideBeyond(Value logits, int64_t classes) {
  OpBuilder builder(logits.getContext());
  builder.setInsertionPointAfterValue(logits);
  TensorBuilder b(builder, logits.getLoc());
  auto type = cast<FloatType>(getElementTypeOrSelf(logits));
  double smallest = -APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return replaceBeyond(b, logits, classes, smallest);
}

void padWhereExact(DimensionPadder &padder, Value value, int64_t dim,
                   const HiddenPadding &padding) {
  if (padder.collect(value, dim) && padder.collectReaders() && padder.isAll() &&
      padder.isAmong(padding))
    padder.pad();
}

/// Pads heads by as many as have keys of their own, each with the queries that share them.
void padHeads(func::FuncOp function, Value value, int64_t dim, int64_t keys,
              const HiddenPadding &padding) {
  const int64_t queries = shapeOf(value)[dim];
  const int64_t multiple = padding.ways / std::gcd(padding.ways, queries / keys);
  const int64_t padded = paddedTo(keys, multiple, leastShareOf(padding));
  if (keys == 1 || queries % padding.ways == 0 || padded == keys)
    return;
  DimensionPadder padder(function, keys, padded);
  padWhereExact(padder, value, dim, padding);
}

/// Pads what both factors of a product have, where that is heads.
void padShared(func::FuncOp function, ContractOp product, const HiddenPadding &padding) {
  for (auto [dim, index] : llvm::enumerate(product.getResultIndices()))
    if (llvm::is_contained(product.getLhsIndices(), index) &&
        llvm::is_contained(product.getRhsIndices(), index))
      padHeads(function, product.getResult(), int64_t(dim), shapeOf(product)[dim], padding);
}

/// Pads what a product sums over, where it is such features.
void padSummed(func::FuncOp function, ContractOp product, int64_t operand,
               const HiddenPadding &padding) {
  ArrayRef<int64_t> indices = operand == 0 ? product.getLhsIndices() : product.getRhsIndices();
  Value value = product->getOperand(operand);
  for (auto [dim, index] : llvm::enumerate(indices)) {
    const int64_t size = shapeOf(value)[dim];
    const int64_t padded = paddedTo(size, padding.multiple, leastShareOf(padding));
    if (llvm::is_contained(product.getResultIndices(), index) || size % padding.ways == 0 ||
        padded == size)
      continue;
    DimensionPadder padder(function, size, padded);
    padWhereExact(padder, value, int64_t(dim), padding);
  }
}

} // namespace

bool leavesZeros(const TrainOptions &options) {
  return options.optimizer == OptimizerKind::Sgd ||
         static_cast<float>(options.eps) >= std::numeric_limits<float>::min();
}

Value replaceBeyond(TensorBuilder &b, Value logits, int64_t classes, double beyond) {
  ArrayRef<int64_t> shape = shapeOf(logits);
  Value place = b.iota(b.builder.getI64Type(), shape, shape.size() - 1);
  Value isClass = b.compare(arith::CmpIPredicate::slt, place, classes);
  return b.selectOr(isClass, logits, beyond);
}

std::optional<PaddedClasses> padClasses(func::FuncOp function, Value logits, int64_t multiple) {
  const int64_t classes = shapeOf(logits).back();
  const int64_t padded = paddedTo(classes, multiple, kLeastShare);
  if (padded == classes)
    return std::nullopt;
  DimensionPadder padder(function, classes, padded);
  if (!logits.use_empty() || !padder.collect(logits, int64_t(shapeOf(logits).size()) - 1) ||
      !padder.isAll())
    return std::nullopt;
  padder.pad();
  return PaddedClasses{hideBeyond(logits, classes), classes};
}

void padHiddenFeatures(func::FuncOp function, const HiddenPadding &padding) {
  for (auto attention : function.getOps<AttentionOp>())
    padHeads(function, attention.getResult(), 2, shapeOf(attention.getKey())[2], padding);
  for (auto product : function.getOps<ContractOp>())
    padShared(function, product, padding);
  for (auto product : function.getOps<ContractOp>())
    for (int64_t operand : {0, 1})
      padSummed(function, product, operand, padding);
}

} // namespace dtc::training
