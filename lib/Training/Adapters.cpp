#include "Adapters.h"

#include "Names.h"
#include "PhaseFunction.h"

#include "dtc/Dialect/Graph/Adapters.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "llvm/ADT/StringSet.h"

#include <re2/re2.h>

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

namespace {

using Indices = SmallVector<int64_t>;

/// A product seen from its weight. Rows that look up their experts' weights are multiplied by
/// grouped products.
struct Adapted {
  Operation *product;
  GroupedContractOp grouped; ///< the product, if it is one
  Value input;
  BlockArgument weight;
  Indices inputIndices, weightIndices, resultIndices;
  int64_t indexCount;
  /// Of the weight: those that the product sums over, those of the result alone,
  /// and those that the input has, too (experts).
  Indices summed, made, shared;
};

class AdapterBuilder {
public:
  AdapterBuilder(ModuleOp module, func::FuncOp forward, const AdapterOptions &options)
      : module(module), forward(forward), symbols(module), options(options),
        targets(options.targets.value_or(""), RE2::Quiet) {}

  LogicalResult run() {
    if (!targets.ok())
      return forward.emitError() << "not a regular expression (" << targets.error()
                                 << "): " << *options.targets;
    std::vector<Adapted> products;
    Block &body = forward.getBody().front();
    for (Operation &op : body)
      if (std::optional<Adapted> adapted = adaptableProduct(&op))
        products.push_back(*adapted);
    if (products.empty())
      return forward.emitError() << "the model has no product with a trainable weight to adapt"
                                 << (options.targets ? " that matches: " + *options.targets
                                                     : std::string());
    if (options.targets)
      warnOfOthers(products);
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      parameter.setTrainable(false);
    countReads(products);
    roles.resize(forward.getNumArguments()); // those stay as they are
    for (Adapted &adapted : products)
      if (failed(adapt(adapted)))
        return failure();
    forward.setType(FunctionType::get(forward.getContext(), body.getArgumentTypes(),
                                      forward.getResultTypes()));
    setArgAttrs(forward, GraphDialect::kRole, roles);
    return success();
  }

private:
  std::optional<Adapted> adaptableProduct(Operation *op) {
    if (auto product = dyn_cast<ContractOp>(op))
      return adaptable(product, {});
    if (auto product = dyn_cast<GroupedContractOp>(op))
      return adaptable(product, product);
    return std::nullopt;
  }

  template <typename Product>
  std::optional<Adapted> adaptable(Product op, GroupedContractOp grouped) {
    for (bool onRight : {true, false}) {
      if (grouped && !onRight) // what looks up is no weight
        break;
      Value weight = onRight ? op.getRhs() : op.getLhs();
      auto argument = dyn_cast<BlockArgument>(weight);
      if (!argument)
        continue;
      RoleAttr role = getArgRole(forward, argument.getArgNumber());
      auto parameter = symbols.lookup<ParameterOp>(role.getName());
      if (role.getKind() != RoleKind::Parameter || !parameter || !parameter.getTrainable() ||
          !isTarget(parameter))
        continue;
      Adapted result{op,
                     grouped,
                     onRight ? op.getLhs() : op.getRhs(),
                     argument,
                     Indices(onRight ? op.getLhsIndices() : op.getRhsIndices()),
                     Indices(onRight ? op.getRhsIndices() : op.getLhsIndices()),
                     Indices(op.getResultIndices()),
                     int64_t(op.getIndexSizes().size()),
                     {},
                     {},
                     {}};
      for (int64_t index : result.weightIndices) {
        bool read = llvm::is_contained(result.inputIndices, index);
        bool kept = llvm::is_contained(result.resultIndices, index);
        bool isShared = (read && kept) || (grouped && index == int64_t(grouped.getExperts()));
        (isShared ? result.shared : read ? result.summed : result.made).push_back(index);
      }
      if (!result.summed.empty() && !result.made.empty())
        return result;
    }
    return std::nullopt;
  }

  bool isTarget(ParameterOp parameter) const {
    return !options.targets || hasName(parameter, targets);
  }

  /// Matrices that were asked for, but that no product reads as they are.
  void warnOfOthers(ArrayRef<Adapted> products) {
    llvm::StringSet<> adapted;
    for (const Adapted &product : products)
      adapted.insert(getArgRole(forward, product.weight.getArgNumber()).getName());
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      if (parameter.getTrainable() && isTarget(parameter) &&
          !adapted.contains(parameter.getSymName()) &&
          cast<RankedTensorType>(parameter.getFileType()).getRank() > 1)
        forward.emitWarning() << "gets no adapter, as no product reads it: "
                              << parameter.getSymName();
  }

  void countReads(ArrayRef<Adapted> products) {
    for (const Adapted &product : products)
      ++reads[product.weight];
    for (Value weight : forward.getArguments())
      if (reads.contains(weight) && isReadOtherwise(weight))
        forward.emitWarning()
            << "its adapter is of products alone; what else reads the weight, such "
               "as a look-up, goes without: "
            << getArgRole(forward, cast<BlockArgument>(weight).getArgNumber()).getName();
  }

  /// By more than products that are adapted.
  bool isReadOtherwise(Value weight) const {
    return int64_t(llvm::range_size(weight.getUses())) != reads.lookup(weight);
  }

  int64_t sizeOf(Adapted &adapted, int64_t index) {
    auto type = cast<RankedTensorType>(adapted.weight.getType());
    return type.getDimSize(llvm::find(adapted.weightIndices, index) -
                           adapted.weightIndices.begin());
  }

  /// The sizes of some of the weight's indices.
  Indices sizesOf(Adapted &adapted, const Indices &indices) {
    return llvm::map_to_vector(indices, [&](int64_t index) { return sizeOf(adapted, index); });
  }

  static int64_t productOf(ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  }

  /// How the weight's indices follow one another. Where something else reads the weight, too, as
  /// the look-up of a tied embedding does, nothing may be added to it.
  WeightLayout layoutOf(const Adapted &adapted) const {
    if (isReadOtherwise(adapted.weight))
      return WeightLayout::Other;
    auto follow = [&](const Indices &first, const Indices &second) {
      Indices all = adapted.shared;
      llvm::append_range(all, first);
      llvm::append_range(all, second);
      return all == adapted.weightIndices;
    };
    return follow(adapted.made, adapted.summed)   ? WeightLayout::OutIn
           : follow(adapted.summed, adapted.made) ? WeightLayout::InOut
                                                  : WeightLayout::Other;
  }

  Value parameter(Adapted &adapted, bool isUp, const Indices &view, const Indices &shape,
                  double deviation) {
    RoleAttr base = getArgRole(forward, adapted.weight.getArgNumber());
    StringRef stem = base.getName();
    stem.consume_back(".weight");
    Type element = cast<RankedTensorType>(adapted.weight.getType()).getElementType();
    OpBuilder builder(forward);
    auto made = ParameterOp::create(
        builder, adapted.product->getLoc(),
        (stem + (isUp ? ".lora_B.weight" : ".lora_A.weight")).str(),
        RankedTensorType::get(view, element), RankedTensorType::get(shape, element),
        /*trainable=*/true, /*buffer=*/false, builder.getStrArrayAttr({}));
    double scale = options.alpha != 0 ? options.alpha / double(options.rank) : 1;
    setAdapter(made, AdapterAttr::get(builder.getContext(),
                                      FlatSymbolRefAttr::get(builder.getContext(), base.getName()),
                                      isUp ? AdapterPart::Up : AdapterPart::Down,
                                      builder.getF64FloatAttr(scale),
                                      builder.getF64FloatAttr(deviation), layoutOf(adapted)));
    symbols.insert(made);
    roles.push_back(roleOf(forward.getContext(), RoleKind::Parameter, made.getSymName()));
    return forward.getBody().front().addArgument(made.getType(), made.getLoc());
  }

  /// Which dimensions of the weight some of its indices are.
  static Indices positionsOf(const Adapted &adapted, const Indices &indices) {
    return llvm::map_to_vector(indices, [&](int64_t index) {
      return int64_t(llvm::find(adapted.weightIndices, index) - adapted.weightIndices.begin());
    });
  }

  /// An adapter's two parameters and how it belongs to the weight's dimensions.
  struct Made {
    Value a, b;
    Indices shared, in, out;
  };

  Made makeParameters(Adapted &adapted) {
    Indices shared = sizesOf(adapted, adapted.shared), in = sizesOf(adapted, adapted.summed),
            out = sizesOf(adapted, adapted.made);
    auto joined = [](Indices all, std::initializer_list<Indices> parts) {
      for (const Indices &part : parts)
        llvm::append_range(all, part);
      return all;
    };
    // Files have experts in one dimension, however ranks share them.
    const Indices inFile = shared.empty() ? Indices() : Indices{productOf(shared)};
    Indices rank = {options.rank};
    const int64_t from = productOf(in), to = productOf(out);
    Value a = parameter(adapted, /*isUp=*/false, joined(shared, {rank, in}),
                        joined(inFile, {rank, {from}}), 1 / std::sqrt(3.0 * double(from)));
    Value b = parameter(adapted, /*isUp=*/true, joined(shared, {out, rank}),
                        joined(inFile, {{to}, rank}), 0);
    return {a, b, positionsOf(adapted, adapted.shared), positionsOf(adapted, adapted.summed),
            positionsOf(adapted, adapted.made)};
  }

  /// A weight that several products read has one adapter. A product that reads the weight
  /// transposed reads it so, too: then it `isReversed`.
  FailureOr<Made> chooseParameters(Adapted &adapted, bool &isReversed) {
    auto known = made.find(adapted.weight);
    if (known == made.end())
      known = made.try_emplace(adapted.weight, makeParameters(adapted)).first;
    const Made &found = known->second;
    Indices in = positionsOf(adapted, adapted.summed), out = positionsOf(adapted, adapted.made);
    isReversed = in == found.out && out == found.in;
    bool fits = isReversed || (in == found.in && out == found.out);
    if (!fits || positionsOf(adapted, adapted.shared) != found.shared)
      return adapted.product->emitError()
             << "products read this weight in different ways, which no adapter fits: "
             << getArgRole(forward, adapted.weight.getArgNumber()).getName();
    return found;
  }

  /// A product as the adapted one is. Contractions number their indices without gaps.
  static Value contract(TensorBuilder &b, const Adapted &adapted, Value lhs, Indices lhsIndices,
                        Value rhs, Indices rhsIndices, Indices result, Type type) {
    DenseMap<int64_t, int64_t> numbers;
    for (Indices *indices : {&result, &lhsIndices, &rhsIndices})
      for (int64_t &index : *indices)
        index = numbers.try_emplace(index, int64_t(numbers.size())).first->second;
    GroupedContractOp grouped = adapted.grouped;
    if (!grouped)
      return ContractOp::create(b.builder, b.loc, type, lhs, rhs, lhsIndices, rhsIndices, result);
    Indices choices = llvm::map_to_vector(ArrayRef<int64_t>(grouped.getChoiceIndices()),
                                          [&](int64_t index) { return numbers.at(index); });
    return GroupedContractOp::create(b.builder, b.loc, type, lhs, rhs, grouped.getChoices(),
                                     lhsIndices, rhsIndices, result, choices,
                                     numbers.at(grouped.getExperts()));
  }

  LogicalResult adapt(Adapted &adapted) {
    bool isReversed = false;
    FailureOr<Made> adapter = chooseParameters(adapted, isReversed);
    if (failed(adapter))
      return failure();
    const int64_t inner = adapted.indexCount; // a new index
    auto indices = [&](bool isUp, const Indices &others) {
      Indices all = adapted.shared;
      if (!isUp)
        all.push_back(inner);
      llvm::append_range(all, others);
      if (isUp)
        all.push_back(inner);
      return all;
    };
    auto [first, second] =
        isReversed ? std::pair(adapter->b, adapter->a) : std::pair(adapter->a, adapter->b);
    Indices down = indices(/*isUp=*/isReversed, adapted.summed);
    Indices up = indices(/*isUp=*/!isReversed, adapted.made);
    Value y = adapted.product->getResult(0);
    auto type = cast<RankedTensorType>(y.getType());
    Indices middle, middleShape;
    for (auto [index, size] : llvm::zip_equal(adapted.resultIndices, type.getShape()))
      if (!llvm::is_contained(adapted.made, index)) {
        middle.push_back(index);
        middleShape.push_back(size);
      }
    middle.push_back(inner);
    middleShape.push_back(options.rank);
    OpBuilder builder(adapted.product->getContext());
    builder.setInsertionPointAfter(adapted.product);
    TensorBuilder tensors(builder, adapted.product->getLoc());
    Value low = contract(tensors, adapted, adapted.input, adapted.inputIndices, first, down, middle,
                         type.clone(middleShape));
    if (options.alpha != 0)
      low = tensors.scale(low, options.alpha / double(options.rank));
    Value added = contract(tensors, adapted, low, middle, second, up, adapted.resultIndices, type);
    Value sum = tensors.add(y, added);
    y.replaceAllUsesExcept(sum, sum.getDefiningOp());
    return success();
  }

  ModuleOp module;
  func::FuncOp forward;
  SymbolTable symbols;
  const AdapterOptions &options;
  RE2 targets;
  llvm::DenseMap<Value, Made> made;     ///< looked up only
  llvm::DenseMap<Value, int64_t> reads; ///< of a weight, by products that are adapted; likewise
  SmallVector<Attribute> roles;     ///< of the function's arguments
};

} // namespace

LogicalResult addAdapters(ModuleOp module, func::FuncOp forward, const AdapterOptions &options) {
  return AdapterBuilder(module, forward, options).run();
}

} // namespace dtc::training
