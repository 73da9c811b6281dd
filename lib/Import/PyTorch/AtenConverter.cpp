#include "AtenConverter.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/UnsupportedOperators.h"
#include "dtc/Import/PyTorch/Import.h"
#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

#include <map>
#include <utility>

using namespace mlir;

namespace dtc::import {

const AtenTable &atenConverters() {
  static const AtenTable table = [] {
    AtenTable all;
    addArithmetic(all);
    addComparisons(all);
    addActivations(all);
    addCreation(all);
    addMovement(all);
    addParts(all);
    addLookups(all);
    addScatters(all);
    addContractions(all);
    addReductions(all);
    addNormalizations(all);
    addVision(all);
    addLosses(all);
    addMargins(all);
    addRecurrence(all);
    addResizes(all);
    addNumbers(all);
    return all;
  }();
  return table;
}

Type elementType(MLIRContext *context, ScalarType type) {
  auto integer = [&](unsigned width, IntegerType::SignednessSemantics sign) {
    return IntegerType::get(context, width, sign);
  };
  switch (type.number) {
  case 1:
    return integer(8, IntegerType::Unsigned);
  case 2:
    return integer(8, IntegerType::Signless);
  case 3:
    return integer(16, IntegerType::Signless);
  case 4:
    return integer(32, IntegerType::Signless);
  case 5:
    return integer(64, IntegerType::Signless);
  case 6:
    return Float16Type::get(context);
  case 7:
    return Float32Type::get(context);
  case 8:
    return Float64Type::get(context);
  case 12:
    return integer(1, IntegerType::Signless);
  case 13:
    return BFloat16Type::get(context);
  case 28:
    return integer(16, IntegerType::Unsigned);
  case 34:
    return integer(32, IntegerType::Unsigned);
  case 35:
    return integer(64, IntegerType::Unsigned);
  default:
    return {};
  }
}

/// "aten.add_.Tensor" in its three parts; the middle one keeps the mark of working in place.
static std::array<StringRef, 3> partsOf(StringRef op) {
  auto [space, rest] = op.split('.');
  auto [base, overload] = rest.split('.');
  return {space, base, overload};
}

/// Of operators that PyTorch has under two names, the one that converters know.
static StringRef canonical(StringRef base) {
  return llvm::StringSwitch<StringRef>(base)
      .Case("absolute", "abs")
      .Case("arccos", "acos")
      .Case("arcsin", "asin")
      .Case("arctan", "atan")
      .Case("broadcast_to", "expand")
      .Case("clip", "clamp")
      .Case("concatenate", "cat")
      .Cases({"divide", "true_divide"}, "div")
      .Case("greater", "gt")
      .Case("greater_equal", "ge")
      .Case("less", "lt")
      .Case("less_equal", "le")
      .Case("moveaxis", "movedim")
      .Case("multiply", "mul")
      .Case("negative", "neg")
      .Case("not_equal", "ne")
      .Case("special_erf", "erf")
      .Case("special_expm1", "expm1")
      .Case("special_log1p", "log1p")
      .Case("special_log_softmax", "log_softmax")
      .Case("special_logsumexp", "logsumexp")
      .Case("special_softmax", "softmax")
      .Case("subtract", "sub")
      .Case("unsafe_chunk", "chunk")
      .Case("unsafe_split", "split")
      .Case("unsafe_split_with_sizes", "split_with_sizes")
      .Default(base);
}

static std::string tableName(StringRef op) {
  auto [space, base, overload] = partsOf(op);
  if (base.ends_with("_") && !base.ends_with("__"))
    base = base.drop_back();
  return (space + "." + (space == "aten" ? canonical(base) : base)).str();
}

AtenConverter::AtenConverter(const AtenNode &node, Emitter &emit, llvm::StringMap<Tensor> &values,
                             Location file, Budget &budget)
    : Conversion(emit, budget), node(node), values(values), file(file) {}

std::string AtenConverter::op() const { return tableName(node.op); }
std::string AtenConverter::overload() const { return partsOf(node.op)[2].str(); }

const Argument *AtenConverter::argument(StringRef name) const {
  const Argument *given = node.argument(name);
  return given && !given->isNone() ? given : nullptr;
}

FailureOr<Tensor> AtenConverter::tensor(StringRef name) {
  const Argument *found = argument(name);
  const ValueName *value = found ? found->as<ValueName>() : nullptr;
  auto known = value ? values.find(value->name) : values.end();
  if (known == values.end())
    return LogicalResult(error() << "needs a tensor as its argument " << name);
  return known->second;
}

FailureOr<std::optional<Tensor>> AtenConverter::optionalTensor(StringRef name) {
  if (!has(name))
    return std::optional<Tensor>();
  auto found = tensor(name);
  if (failed(found))
    return failure();
  std::optional<Tensor> result;
  result.emplace(*found);
  return result;
}

FailureOr<std::vector<Tensor>> AtenConverter::listOf(StringRef name, bool allowsNone) {
  const Argument *found = argument(name);
  const ArgumentList *list = found ? found->as<ArgumentList>() : nullptr;
  if (!list)
    return LogicalResult(error() << "needs a list of tensors as its argument " << name);
  std::vector<Tensor> result;
  for (const Argument &each : *list) {
    if (allowsNone && each.isNone())
      continue;
    const ValueName *value = each.as<ValueName>();
    auto known = value ? values.find(value->name) : values.end();
    if (known == values.end())
      return LogicalResult(error() << "needs a list of tensors as its argument " << name);
    result.push_back(known->second);
  }
  return result;
}

FailureOr<std::vector<Tensor>> AtenConverter::tensors(StringRef name) {
  return listOf(name, /*allowsNone=*/false);
}

FailureOr<std::vector<Tensor>> AtenConverter::presentTensors(StringRef name) {
  return listOf(name, /*allowsNone=*/true);
}

/// A number of the program, or one that was computed from sizes.
FailureOr<int64_t> AtenConverter::integerOf(const Argument &argument, StringRef name) {
  if (const int64_t *number = argument.as<int64_t>())
    return *number;
  if (const bool *truth = argument.as<bool>())
    return int64_t(*truth);
  if (const ValueName *value = argument.as<ValueName>())
    if (auto known = values.find(value->name); known != values.end() && known->second.host &&
                                               known->second.host->size() == 1 &&
                                               !known->second.host->isFloat())
      return known->second.host->ints[0];
  return LogicalResult(error() << "needs an integer known while compiling as its argument "
                               << name);
}

FailureOr<int64_t> AtenConverter::integer(StringRef name, std::optional<int64_t> byDefault) {
  const Argument *found = argument(name);
  if (found)
    return integerOf(*found, name);
  if (byDefault)
    return *byDefault;
  return LogicalResult(error() << "lacks its argument " << name);
}

FailureOr<double> AtenConverter::number(StringRef name, std::optional<double> byDefault) {
  const Argument *found = argument(name);
  if (found)
    if (const double *value = found->as<double>())
      return *value;
  if (!found && byDefault)
    return *byDefault;
  auto whole = integer(name);
  return failed(whole) ? FailureOr<double>(failure()) : FailureOr<double>(double(*whole));
}

FailureOr<bool> AtenConverter::boolean(StringRef name, std::optional<bool> byDefault) {
  auto whole = integer(name, byDefault ? std::optional<int64_t>(*byDefault) : std::nullopt);
  return failed(whole) ? FailureOr<bool>(failure()) : FailureOr<bool>(*whole != 0);
}

FailureOr<Shape> AtenConverter::integers(StringRef name, std::optional<Shape> byDefault) {
  const Argument *found = argument(name);
  if (!found && byDefault)
    return *byDefault;
  const ArgumentList *list = found ? found->as<ArgumentList>() : nullptr;
  if (!list || list->size() > kMaxListed)
    return LogicalResult(error() << "needs a list of integers as its argument " << name);
  Shape result;
  for (const Argument &each : *list) {
    auto whole = integerOf(each, name);
    if (failed(whole))
      return failure();
    result.push_back(*whole);
  }
  return result;
}

FailureOr<std::vector<double>> AtenConverter::numbers(StringRef name) {
  const Argument *found = argument(name);
  const ArgumentList *list = found ? found->as<ArgumentList>() : nullptr;
  if (found && (!list || list->size() > kMaxListed))
    return LogicalResult(error() << "needs a list of numbers as its argument " << name);
  std::vector<double> result;
  for (size_t i = 0; list && i < list->size(); ++i) {
    const double *value = (*list)[i].as<double>();
    auto whole = value ? FailureOr<int64_t>(0) : integerOf((*list)[i], name);
    if (failed(whole))
      return failure();
    result.push_back(value ? *value : double(*whole));
  }
  return result;
}

FailureOr<std::string> AtenConverter::text(StringRef name, std::optional<std::string> byDefault) {
  const Argument *found = argument(name);
  if (found)
    if (const std::string *value = found->as<std::string>())
      return *value;
  if (!found && byDefault)
    return *byDefault;
  return LogicalResult(error() << "needs a text as its argument " << name);
}

FailureOr<Type> AtenConverter::type(StringRef name, Type byDefault) {
  const Argument *found = argument(name);
  if (!found)
    return byDefault;
  if (const ScalarType *number = found->as<ScalarType>())
    if (Type element = elementType(emit.getContext(), *number))
      return element;
  return LogicalResult(error() << "needs a supported element type as its argument " << name);
}

FailureOr<AtenConverter::Operand> AtenConverter::operand(StringRef name) {
  const Argument *found = argument(name);
  if (!found)
    return LogicalResult(error() << "lacks its argument " << name);
  if (const double *value = found->as<double>())
    return Operand{Tensor(HostTensor::splat(emit.getF64Type(), {}, *value)), true};
  if (const bool *value = found->as<bool>())
    return Operand{Tensor(HostTensor::splat(emit.getI1Type(), {}, *value)), true};
  if (const int64_t *value = found->as<int64_t>())
    return Operand{Tensor(HostTensor::ofInts(emit.getI64Type(), {}, {*value})), true};
  auto known = tensor(name);
  if (failed(known))
    return failure();
  return Operand{*known, false};
}

FailureOr<int64_t> AtenConverter::axisOf(StringRef name, int64_t rank,
                                         std::optional<int64_t> byDefault) {
  auto given = integer(name, byDefault);
  if (failed(given))
    return failure();
  return axis(*given, rank);
}

FailureOr<Shape> AtenConverter::axesOf(StringRef name, int64_t rank) {
  const Argument *found = argument(name);
  Shape list;
  if (found && !found->as<ArgumentList>()) {
    auto one = integer(name);
    if (failed(one))
      return failure();
    list.push_back(*one);
  } else if (found) {
    auto several = integers(name);
    if (failed(several))
      return failure();
    list = *several;
  }
  Shape result;
  for (int64_t item : list) {
    auto at = axis(item, rank);
    if (failed(at))
      return failure();
    if (llvm::is_contained(result, *at))
      return LogicalResult(error() << "names an axis twice: " << item);
    result.push_back(*at);
  }
  if (result.empty())
    for (int64_t i = 0; i < rank; ++i)
      result.push_back(i);
  llvm::sort(result);
  return result;
}

LogicalResult AtenConverter::define(size_t result, Tensor tensor) {
  if (result >= node.results.size() || node.results[result].empty())
    return success();
  if (failed(chargeResult(tensor)) || failed(checkResult(tensor)))
    return failure();
  values[node.results[result]] = std::move(tensor);
  return success();
}

InFlightDiagnostic AtenConverter::error() const {
  InFlightDiagnostic diagnostic = emitError(file) << "node " << node.name << " (" << node.op;
  if (!node.source.empty())
    diagnostic << ", " << node.source;
  diagnostic << "): ";
  if (std::exchange(reported, true))
    diagnostic.abandon();
  return diagnostic;
}

Type promoted(const AtenConverter::Operand &a, const AtenConverter::Operand &b) {
  const Type left = a.tensor.element(), right = b.tensor.element();
  auto category = [](Type type) { return isa<FloatType>(type) ? 2 : type.isInteger(1) ? 0 : 1; };
  auto level = [](const AtenConverter::Operand &operand) {
    return operand.isNumber ? 0 : operand.tensor.rank() == 0 ? 1 : 2;
  };
  if (category(left) != category(right)) {
    const bool first = category(left) > category(right);
    const AtenConverter::Operand &higher = first ? a : b;
    const Type type = first ? left : right;
    // A Python float beside integers is of PyTorch's default type.
    return higher.isNumber && isa<FloatType>(type) ? Float32Type::get(type.getContext()) : type;
  }
  if (level(a) != level(b))
    return level(a) > level(b) ? left : right;
  if (left != right && left.getIntOrFloatBitWidth() == right.getIntOrFloatBitWidth())
    return Float32Type::get(left.getContext()); // f16 and bf16
  return left.getIntOrFloatBitWidth() >= right.getIntOrFloatBitWidth() ? left : right;
}

static void forEachRead(const AtenNode &node, llvm::function_ref<void(const std::string &)> visit) {
  for (const NamedArgument &argument : node.arguments) {
    if (const ValueName *value = argument.value.as<ValueName>())
      visit(value->name);
    if (const ArgumentList *list = argument.value.as<ArgumentList>())
      for (const Argument &each : *list)
        if (const ValueName *value = each.as<ValueName>())
          visit(value->name);
  }
}

static bool isLive(const AtenNode &node, const llvm::StringMap<bool> &live) {
  return llvm::any_of(node.results, [&](const auto &name) { return live.contains(name); });
}

llvm::StringMap<bool> liveValues(const AtenGraph &graph, Dependence kind) {
  llvm::StringMap<bool> live;
  for (const std::string &name : graph.outputs)
    live[name] = true;
  for (const auto &[buffer, value] : graph.bufferChanges)
    live[value] = live[buffer] = true;
  auto passes = [&](const AtenNode &node) {
    return kind == Dependence::Any || tableName(node.op) != "aten.detach";
  };
  for (const AtenNode &node : llvm::reverse(graph.nodes))
    if (isLive(node, live) && passes(node))
      forEachRead(node, [&](const std::string &name) { live[name] = true; });
  return live;
}

std::vector<std::string> atenOperators() {
  std::vector<std::string> names;
  for (const auto &entry : atenConverters())
    names.push_back(entry.getKey().str());
  llvm::sort(names);
  return names;
}

/// Reports every live operator that has no converter.
static LogicalResult checkSupported(ArrayRef<const AtenNode *> nodes, Location file) {
  std::vector<UnsupportedOperator> operators;
  for (const AtenNode *node : nodes)
    if (!atenConverters().contains(tableName(node->op)))
      operators.push_back({node->op, node->source.empty() ? node->name : node->source});
  llvm::sort(operators, [](const auto &a, const auto &b) { return a.name < b.name; });
  return refuse(file, operators);
}

LogicalResult convertAten(const AtenGraph &graph, Emitter &emit, llvm::StringMap<Tensor> &values,
                          Location file, Budget &budget) {
  const auto live = liveValues(graph);
  std::vector<const AtenNode *> nodes;
  std::map<std::string, int64_t> readers; // what nobody reads any more is let go
  for (const AtenNode &node : graph.nodes)
    if (isLive(node, live)) {
      nodes.push_back(&node);
      forEachRead(node, [&](const std::string &name) { ++readers[name]; });
    }
  for (const std::string &name : graph.outputs)
    ++readers[name];
  for (const auto &[buffer, value] : graph.bufferChanges)
    ++readers[value];
  if (failed(checkSupported(nodes, file)))
    return failure();
  for (const AtenNode *node : nodes) {
    emit.setLoc(NameLoc::get(StringAttr::get(emit.getContext(), node->name)));
    AtenConverter converter(*node, emit, values, file, budget);
    if (failed(atenConverters().lookup(tableName(node->op))(converter)))
      return failure();
    for (const std::string &name : node->results)
      if (live.contains(name) && !values.contains(name))
        return unsupported(converter.error()) << "the result " << name << " is not supported";
    forEachRead(*node, [&](const std::string &name) {
      auto found = values.find(name);
      if (--readers[name] > 0 || found == values.end())
        return;
      if (Host host = found->second.host)
        budget.release(host->bytes());
      values.erase(found);
    });
  }
  return success();
}

} // namespace dtc::import
