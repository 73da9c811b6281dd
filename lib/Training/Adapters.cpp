#include "Adapters.h"

#include "PhaseFunction.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

using Indices = SmallVector<int64_t>;

/// A product seen from its weight.
struct Adapted {
  ContractOp product;
  Value input;
  BlockArgument weight;
  Indices inputIndices, weightIndices, resultIndices;
  /// Of the weight: those that the product sums over, those of the result alone,
  /// and those that the input has, too (experts).
  Indices summed, made, shared;
};

class AdapterBuilder {
public:
  AdapterBuilder(ModuleOp module, func::FuncOp forward, int64_t rank)
      : module(module), forward(forward), symbols(module), rank(rank) {}

  LogicalResult run() {
    std::vector<Adapted> products;
    Block &body = forward.getBody().front();
    for (ContractOp op : body.getOps<ContractOp>())
      if (std::optional<Adapted> adapted = adaptable(op))
        products.push_back(*adapted);
    if (products.empty())
      return forward.emitError("the model has no product with a trainable weight to adapt");
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      parameter.setTrainable(false);
    roles.resize(forward.getNumArguments()); // those stay as they are
    for (Adapted &adapted : products)
      adapt(adapted);
    forward.setType(FunctionType::get(forward.getContext(), body.getArgumentTypes(),
                                      forward.getResultTypes()));
    setArgAttrs(forward, GraphDialect::kRole, roles);
    return success();
  }

private:
  std::optional<Adapted> adaptable(ContractOp op) {
    for (bool onRight : {true, false}) {
      Value weight = onRight ? op.getRhs() : op.getLhs();
      auto argument = dyn_cast<BlockArgument>(weight);
      if (!argument)
        continue;
      RoleAttr role = getArgRole(forward, argument.getArgNumber());
      auto parameter = symbols.lookup<ParameterOp>(role.getName());
      if (role.getKind() != RoleKind::Parameter || !parameter || !parameter.getTrainable())
        continue;
      Adapted result{op, onRight ? op.getLhs() : op.getRhs(), argument,
                     Indices(onRight ? op.getLhsIndices() : op.getRhsIndices()),
                     Indices(onRight ? op.getRhsIndices() : op.getLhsIndices()),
                     Indices(op.getResultIndices()), {}, {}, {}};
      for (int64_t index : result.weightIndices) {
        bool read = llvm::is_contained(result.inputIndices, index);
        bool kept = llvm::is_contained(result.resultIndices, index);
        (read && kept ? result.shared : read ? result.summed : result.made).push_back(index);
      }
      if (!result.summed.empty() && !result.made.empty())
        return result;
    }
    return std::nullopt;
  }

  int64_t sizeOf(Adapted &adapted, int64_t index) {
    auto type = cast<RankedTensorType>(adapted.weight.getType());
    return type.getDimSize(llvm::find(adapted.weightIndices, index) -
                           adapted.weightIndices.begin());
  }

  Value parameter(Adapted &adapted, StringRef suffix, const Indices &shape) {
    RoleAttr base = getArgRole(forward, adapted.weight.getArgNumber());
    auto type = RankedTensorType::get(
        shape, cast<RankedTensorType>(adapted.weight.getType()).getElementType());
    OpBuilder builder(forward);
    auto made = ParameterOp::create(builder, adapted.product.getLoc(),
                                    (base.getName() + suffix).str(), type, type,
                                    /*trainable=*/true, /*buffer=*/false,
                                    builder.getStrArrayAttr({}));
    symbols.insert(made); // a weight that several products read has an adapter for each
    roles.push_back(roleOf(forward.getContext(), RoleKind::Parameter, made.getSymName()));
    return forward.getBody().front().addArgument(type, made.getLoc());
  }

  /// Contractions number their indices without gaps.
  static Value contract(TensorBuilder &b, Value lhs, Indices lhsIndices, Value rhs,
                        Indices rhsIndices, Indices result, Type elementType) {
    DenseMap<int64_t, int64_t> numbers;
    for (Indices *indices : {&result, &lhsIndices, &rhsIndices})
      for (int64_t &index : *indices)
        index = numbers.try_emplace(index, int64_t(numbers.size())).first->second;
    return b.contract(lhs, lhsIndices, rhs, rhsIndices, result, elementType);
  }

  void adapt(Adapted &adapted) {
    Indices down = adapted.shared, up = adapted.shared;
    llvm::append_range(down, adapted.summed);
    Indices downShape, upShape;
    for (int64_t index : down)
      downShape.push_back(sizeOf(adapted, index));
    for (int64_t index : adapted.shared)
      upShape.push_back(sizeOf(adapted, index));
    int64_t inner = adapted.product.getIndexSizes().size(); // a new index
    down.push_back(inner);
    downShape.push_back(rank);
    up.push_back(inner);
    upShape.push_back(rank);
    for (int64_t index : adapted.made) {
      up.push_back(index);
      upShape.push_back(sizeOf(adapted, index));
    }
    Value a = parameter(adapted, ".lora_A", downShape), b = parameter(adapted, ".lora_B", upShape);
    Indices middle;
    for (int64_t index : adapted.resultIndices)
      if (!llvm::is_contained(adapted.made, index))
        middle.push_back(index);
    middle.push_back(inner);
    OpBuilder builder(adapted.product->getContext());
    builder.setInsertionPointAfter(adapted.product);
    TensorBuilder tensors(builder, adapted.product.getLoc());
    Value y = adapted.product.getResult();
    Type type = getElementTypeOrSelf(y);
    Value low = contract(tensors, adapted.input, adapted.inputIndices, a, down, middle, type);
    Value added = contract(tensors, low, middle, b, up, adapted.resultIndices, type);
    Value sum = tensors.add(y, added);
    y.replaceAllUsesExcept(sum, sum.getDefiningOp());
  }

  ModuleOp module;
  func::FuncOp forward;
  SymbolTable symbols;
  int64_t rank;
  SmallVector<Attribute> roles; ///< of the function's arguments
};

} // namespace

LogicalResult addAdapters(ModuleOp module, func::FuncOp forward, int64_t rank) {
  return AdapterBuilder(module, forward, rank).run();
}

} // namespace dtc::training
