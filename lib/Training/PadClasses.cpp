#include "PadClasses.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {
namespace {

constexpr int64_t kLeastShare = 64; ///< classes for each that is added

/// What has the classes of the logits as a dimension.
class ClassPadder {
public:
  ClassPadder(func::FuncOp function, int64_t padded)
      : symbols(function->getParentOfType<ModuleOp>()), function(function), padded(padded) {}

  /// Whether all of it is known, from the value whose last dimension they are.
  bool collect(Value logits) {
    return logits.use_empty() && collectValue(logits) &&
           llvm::all_of(parameters, [&](Value parameter) { return isReadAsRows(parameter); });
  }
  void pad() {
    for (BlockArgument parameter : parameters)
      padParameter(parameter);
    for (Value value : values)
      value.setType(typeOf(value, shapeOf(value).size() - 1));
  }

private:
  RankedTensorType typeOf(Value value, int64_t dim) const {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[dim] = padded;
    return cast<RankedTensorType>(value.getType()).clone(shape);
  }

  bool collectValue(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    values.push_back(value);
    if (auto product = dyn_cast<ContractOp>(op))
      return collectFactor(product);
    if (auto sum = dyn_cast<arith::AddFOp>(op))
      return sum.getLhs() != sum.getRhs() && collectTerm(sum.getLhs()) && collectTerm(sum.getRhs());
    if (auto spread = dyn_cast<BroadcastOp>(op))
      return !spread.getDims().empty() &&
             spread.getDims().back() == int64_t(shapeOf(value).size()) - 1 &&
             shapeOf(spread.getInput()).size() == spread.getDims().size() &&
             collectParameter(spread.getInput(), spread.getDims().size() - 1);
    return false;
  }
  bool collectTerm(Value value) { return value.hasOneUse() && collectValue(value); }

  /// The factor that has the classes: a parameter, of which they are the rows.
  bool collectFactor(ContractOp op) {
    const int64_t classes = op.getResultIndices().back();
    const bool isLeft = llvm::is_contained(op.getLhsIndices(), classes);
    if (isLeft == llvm::is_contained(op.getRhsIndices(), classes) || op.getLhs() == op.getRhs())
      return false;
    ArrayRef<int64_t> indices = isLeft ? op.getLhsIndices() : op.getRhsIndices();
    return collectParameter(isLeft ? op.getLhs() : op.getRhs(),
                            llvm::find(indices, classes) - indices.begin());
  }

  /// In rows, so that what a file has comes first.
  bool collectParameter(Value value, int64_t dim) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || dim != 0)
      return false;
    RoleAttr role = getArgRole(function, argument.getArgNumber());
    auto parameter = role.getKind() == RoleKind::Parameter
                         ? symbols.lookup<ParameterOp>(role.getName())
                         : ParameterOp();
    if (!parameter || parameter.getType() != argument.getType() ||
        cast<RankedTensorType>(parameter.getFileType()).getShape() != shapeOf(argument))
      return false;
    parameters.push_back(argument);
    return true;
  }

  /// By what was collected, or to look rows up.
  bool isReadAsRows(Value parameter) const {
    return llvm::all_of(parameter.getUses(), [&](OpOperand &use) {
      if (auto lookup = dyn_cast<GatherOp>(use.getOwner()))
        return use.getOperandNumber() == 0 && lookup.getAxis() == 0;
      return llvm::any_of(use.getOwner()->getResults(),
                          [&](Value result) { return llvm::is_contained(values, result); });
    });
  }

  void padParameter(BlockArgument argument) {
    auto type = typeOf(argument, 0);
    symbols.lookup<ParameterOp>(getArgRole(function, argument.getArgNumber()).getName())
        .setType(type);
    argument.setType(type);
  }

  SymbolTable symbols;
  func::FuncOp function;
  int64_t padded;
  SmallVector<Value> values; ///< the classes are the last dimension
  SmallVector<BlockArgument> parameters;
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

} // namespace

std::optional<PaddedClasses> padClasses(func::FuncOp function, Value logits, int64_t multiple) {
  const int64_t classes = shapeOf(logits).back();
  const auto padded = int64_t(llvm::alignTo(uint64_t(classes), uint64_t(multiple)));
  if (padded == classes || (padded - classes) * kLeastShare > classes)
    return std::nullopt;
  ClassPadder padder(function, padded);
  if (!padder.collect(logits))
    return std::nullopt;
  annotateIndexLimits(function); // by what files have
  padder.pad();
  return PaddedClasses{hideBeyond(logits, classes), classes};
}

} // namespace dtc::training
