#include "PadDimension.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {
namespace {

constexpr int64_t kLeastShare = 64; ///< elements for each that is added

int64_t paddedTo(int64_t size, int64_t multiple) {
  const auto padded = int64_t(llvm::alignTo(uint64_t(size), uint64_t(multiple)));
  return (padded - size) * kLeastShare > size ? size : padded;
}

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

/// What has a dimension.
class DimensionPadder {
public:
  DimensionPadder(func::FuncOp function, int64_t padded)
      : symbols(function->getParentOfType<ModuleOp>()), function(function), padded(padded) {}

  /// Notes a value that has the dimension, and all that it is made of.
  MaybeContent collect(Value value, int64_t dim) {
    if (auto known = values.find(value); known != values.end())
      return known->second.dim == dim ? MaybeContent(known->second.content) : std::nullopt;
    Operation *op = value.getDefiningOp();
    MaybeContent content = op ? contentOf(op, dim) : std::nullopt;
    if (content)
      values[value] = {dim, *content};
    return content;
  }

  /// Notes the products with parameters that sum over the dimension, of values with zeros there.
  bool collectReaders() {
    for (const auto &[value, place] : values)
      for (OpOperand &use : value.getUses())
        if (!uses.contains(&use) && !collectReader(use, place))
          return false;
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

  /// Whether these may be padded.
  bool isAmong(const HiddenPadding &padding) const {
    return !padding.among || llvm::all_of(parameters, [&](auto &each) {
      auto argument = cast<BlockArgument>(each.first);
      std::string name = getArgRole(function, argument.getArgNumber()).getName().str();
      return llvm::is_contained(*padding.among, std::pair(name, each.second));
    });
  }

  void pad() {
    annotateIndexLimits(function); // by what files have
    for (auto [parameter, dim] : parameters)
      padParameter(cast<BlockArgument>(parameter), dim);
    for (auto [use, dim] : numbers)
      padNumber(*use, dim);
    for (auto [value, place] : values)
      value.setType(typeOf(value, place.dim));
  }

private:
  struct Place {
    int64_t dim;
    Content content;
  };

  RankedTensorType typeOf(Value value, int64_t dim) const {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[dim] = padded;
    return cast<RankedTensorType>(value.getType()).clone(shape);
  }

  MaybeContent contentOf(Operation *op, int64_t dim) {
    if (auto product = dyn_cast<ContractOp>(op))
      return collectFactor(product, product.getResultIndices()[dim]) ? MaybeContent(Content::Zero)
                                                                     : std::nullopt;
    if (auto spread = dyn_cast<BroadcastOp>(op)) {
      auto place = llvm::find(spread.getDims(), dim);
      bool isCollected =
          place != spread.getDims().end() &&
          collectParameter(spread.getInputMutable(), place - spread.getDims().begin());
      return isCollected ? MaybeContent(Content::Zero) : std::nullopt;
    }
    if (auto activation = dyn_cast<ActivationOp>(op)) {
      MaybeContent input = collectOperand(op->getOpOperand(0), dim);
      return input && !keepsZero(activation.getKind()) ? MaybeContent(Content::Finite) : input;
    }
    if (isa<math::TanhOp, math::ErfOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp>(op))
      return collectOperand(op->getOpOperand(0), dim);
    if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op))
      return std::nullopt;
    MaybeContent a = collectOperand(op->getOpOperand(0), dim);
    MaybeContent b = a ? collectOperand(op->getOpOperand(1), dim) : std::nullopt;
    if (!a || !b)
      return std::nullopt;
    return isa<arith::MulFOp>(op) ? std::min(*a, *b) : allZero(*a, *b);
  }

  MaybeContent collectOperand(OpOperand &operand, int64_t dim) {
    if (DenseElementsAttr number = numberOf(operand.get())) {
      numbers.emplace_back(&operand, dim);
      return number.getSplatValue<APFloat>().isZero() ? Content::Zero : Content::Finite;
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
    auto op = dyn_cast<ContractOp>(use.getOwner());
    if (!op || op.getLhs() == op.getRhs() || place.content != Content::Zero)
      return false;
    const bool isLeft = use.getOperandNumber() == 0;
    const int64_t index = (isLeft ? op.getLhsIndices() : op.getRhsIndices())[place.dim];
    if (llvm::is_contained(op.getResultIndices(), index) || !collectSide(op, !isLeft, index))
      return false;
    uses.insert(&use);
    return true;
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
        cast<RankedTensorType>(parameter.getFileType()).getShape() != shapeOf(argument))
      return false;
    uses.insert(&use);
    return parameters.try_emplace(argument, dim).first->second == dim;
  }

  void padParameter(BlockArgument argument, int64_t dim) {
    auto type = typeOf(argument, dim);
    symbols.lookup<ParameterOp>(getArgRole(function, argument.getArgNumber()).getName())
        .setType(type);
    argument.setType(type);
  }

  /// Others may read it as it is.
  void padNumber(OpOperand &use, int64_t dim) const {
    OpBuilder builder(use.getOwner());
    use.set(arith::ConstantOp::create(builder, use.getOwner()->getLoc(),
                                      numberOf(use.get()).resizeSplat(typeOf(use.get(), dim))));
  }

  SymbolTable symbols;
  func::FuncOp function;
  int64_t padded;
  llvm::MapVector<Value, Place> values;
  llvm::MapVector<Value, int64_t> parameters; ///< by argument: the dimension
  SmallVector<std::pair<OpOperand *, int64_t>> numbers;
  DenseSet<OpOperand *> uses; ///< of values and parameters, as they are expected
};

/// What isn't a class has no share in the softmax.
Value hideBeyond(Value logits, int64_t classes) {
  OpBuilder builder(logits.getContext());
  builder.setInsertionPointAfterValue(logits);
  TensorBuilder b(builder, logits.getLoc());
  ArrayRef<int64_t> shape = shapeOf(logits);
  Value place = b.iota(builder.getI64Type(), shape, shape.size() - 1);
  Value isClass = b.compare(arith::CmpIPredicate::slt, place, classes);
  auto type = cast<FloatType>(getElementTypeOrSelf(logits));
  double smallest = -APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return b.selectOr(isClass, logits, smallest);
}

/// Pads what a product sums over, where it is such features.
void padSummed(func::FuncOp function, ContractOp product, int64_t operand,
               const HiddenPadding &padding) {
  ArrayRef<int64_t> indices = operand == 0 ? product.getLhsIndices() : product.getRhsIndices();
  Value value = product->getOperand(operand);
  for (auto [dim, index] : llvm::enumerate(indices)) {
    const int64_t size = shapeOf(value)[dim], padded = paddedTo(size, padding.multiple);
    if (llvm::is_contained(product.getResultIndices(), index) || size % padding.ways == 0 ||
        padded == size)
      continue;
    DimensionPadder padder(function, padded);
    if (padder.collect(value, int64_t(dim)) && padder.collectReaders() && padder.isAll() &&
        padder.isAmong(padding))
      padder.pad();
  }
}

} // namespace

bool leavesZeros(const TrainOptions &options) {
  return options.optimizer == OptimizerKind::Sgd ||
         static_cast<float>(options.eps) >= std::numeric_limits<float>::min();
}

std::optional<PaddedClasses> padClasses(func::FuncOp function, Value logits, int64_t multiple) {
  const int64_t classes = shapeOf(logits).back(), padded = paddedTo(classes, multiple);
  if (padded == classes)
    return std::nullopt;
  DimensionPadder padder(function, padded);
  if (!logits.use_empty() || !padder.collect(logits, int64_t(shapeOf(logits).size()) - 1) ||
      !padder.isAll())
    return std::nullopt;
  padder.pad();
  return PaddedClasses{hideBeyond(logits, classes), classes};
}

void padHiddenFeatures(func::FuncOp function, const HiddenPadding &padding) {
  for (auto product : function.getOps<ContractOp>())
    for (int64_t operand : {0, 1})
      padSummed(function, product, operand, padding);
}

} // namespace dtc::training
