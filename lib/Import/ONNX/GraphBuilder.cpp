#include "GraphBuilder.h"

#include "Subgraphs.h"

#include "dtc/Import/Build/HostElementwise.h"
#include "dtc/Import/Build/UnsupportedOperators.h"
#include "dtc/Import/Unsupported.h"

#include <set>

using namespace mlir;

namespace dtc::import {

const ConverterTable &converters() {
  static const ConverterTable table = [] {
    ConverterTable all;
    addElementwiseConverters(all);
    addActivationConverters(all);
    addShapeConverters(all);
    addMovementConverters(all);
    addIndexConverters(all);
    addGatherNDConverter(all);
    addSelectionConverters(all);
    addContractionConverters(all);
    addReductionConverters(all);
    addNormConverters(all);
    addAttentionConverters(all);
    addResizeConverter(all);
    addVisionConverters(all);
    addSequenceConverters(all);
    addLossConverters(all);
    addControlConverters(all);
    addRecurrentConverters(all);
    addScatterConverters(all);
    addSpatialConverters(all);
    addSignalConverters(all);
    addSamplingConverters(all);
    addRegionConverters(all);
    addStateConverters(all);
    addShiftConverters(all);
    return all;
  }();
  return table;
}

NodeConverter::NodeConverter(const onnx::NodeProto &node, Emitter &emit,
                             llvm::StringMap<Tensor> &values, TensorReader &tensors, Budget &budget)
    : Conversion(emit, budget), node(node), tensors(tensors), opset(tensors.model.opset),
      values(values), budget(budget) {}

bool NodeConverter::has(int index) const {
  return index >= 0 && index < node.input_size() && !node.input(index).empty();
}

bool NodeConverter::hasOutput(int index) const {
  return index < node.output_size() && !node.output(index).empty();
}

const Tensor &NodeConverter::input(int index) const {
  return values.find(node.input(index))->second;
}

FailureOr<Shape> NodeConverter::ints(int index, StringRef what) {
  if (!has(index))
    return error() << "needs its input " << what;
  Host constant = host(index);
  if (constant && size_t(constant->size()) > kMaxListed)
    return error() << what << " has too many numbers: " << constant->size();
  // Old operators take them as floats, too.
  if (constant && llvm::any_of(constant->floats,
                               [](double number) { return number != double(truncated(number)); }))
    return error() << what << " must be whole numbers";
  if (constant)
    return constant->intList();
  return error() << what << " must be known while compiling: " << node.input(index);
}

FailureOr<Shape> NodeConverter::listed(int index, StringRef name) {
  const auto *given = attribute(name);
  if (has(index) || !given)
    return ints(index, name);
  if (size_t(given->ints_size()) > kMaxListed)
    return error() << name << " has too many numbers: " << given->ints_size();
  return *attrInts(name);
}

FailureOr<int64_t> NodeConverter::scalarInt(int index, StringRef what) {
  auto list = ints(index, what);
  if (failed(list))
    return failure();
  if (list->size() != 1)
    return error() << what << " must be one number";
  return list->front();
}

FailureOr<double> NodeConverter::scalarFloat(int index, StringRef what) {
  Host constant = host(index);
  if (!constant || constant->size() != 1)
    return error() << what << " must be one number known while compiling";
  return constant->number(0);
}

const onnx::AttributeProto *NodeConverter::attribute(StringRef name) const {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t NodeConverter::attrInt(StringRef name, int64_t byDefault) const {
  const auto *found = attribute(name);
  return found ? found->i() : byDefault;
}

double NodeConverter::attrFloat(StringRef name, double byDefault) const {
  const auto *found = attribute(name);
  return found ? found->f() : byDefault;
}

std::optional<Shape> NodeConverter::attrInts(StringRef name) const {
  const auto *found = attribute(name);
  if (!found)
    return std::nullopt;
  return Shape(found->ints().begin(), found->ints().end());
}

std::string NodeConverter::attrString(StringRef name, const std::string &byDefault) const {
  const auto *found = attribute(name);
  return found ? found->s() : byDefault;
}

FailureOr<Shape> NodeConverter::axes(int index, int64_t rank, bool allByDefault) {
  Shape list;
  if (has(index)) {
    auto given = ints(index, "axes");
    if (failed(given))
      return failure();
    list = *given;
  } else if (auto given = attrInts("axes")) {
    list = *given;
  }
  Shape result;
  for (int64_t item : list) {
    auto at = axis(item, rank);
    if (failed(at))
      return failure();
    if (llvm::is_contained(result, *at))
      return error() << "names an axis twice: " << item;
    result.push_back(*at);
  }
  if (result.empty() && allByDefault)
    for (int64_t i = 0; i < rank; ++i)
      result.push_back(i);
  llvm::sort(result);
  return result;
}

LogicalResult NodeConverter::define(int output, Tensor tensor) {
  if (!hasOutput(output))
    return success();
  if (failed(chargeResult(tensor)))
    return failure();
  values[node.output(output)] = std::move(tensor);
  return success();
}

InFlightDiagnostic NodeConverter::error() const {
  return emitError(tensors.model.location)
         << "node " << node.name() << " (" << node.op_type() << "): ";
}

llvm::StringMap<bool> liveValues(const Model &model, ArrayRef<std::string> outputs) {
  llvm::StringMap<bool> live;
  for (const std::string &name : outputs)
    live[name] = true;
  for (const onnx::NodeProto *node : llvm::reverse(model.nodes))
    if (llvm::any_of(node->output(), [&](const auto &name) { return live.contains(name); }))
      for (const std::string &name : readNames(*node))
        live[name] = true;
  return live;
}

/// Inputs that are there and of the kind a converter may rely on.
static LogicalResult checkInputs(const NodeConverter &node, const Operator &op) {
  for (int i = 0; i < std::max(op.required, node.numInputs()); ++i) {
    if (!node.has(i) && (i < op.required || i >= op.firstListed))
      return node.error() << "lacks its input " << i;
    if (node.has(i) && node.input(i).isSequence && !op.takesSequences)
      return node.error() << "cannot take a sequence: " << node.node.input(i);
  }
  return success();
}

/// Reports every live node whose operator has no converter.
static LogicalResult checkSupported(const Model &model,
                                    ArrayRef<const onnx::NodeProto *> nodes) {
  std::vector<UnsupportedOperator> operators;
  for (const onnx::NodeProto *node : nodes)
    if (!isDefaultDomain(node->domain()) || !converters().contains(node->op_type())) {
      const std::string domain = isDefaultDomain(node->domain()) ? "" : node->domain() + ".";
      operators.push_back({domain + node->op_type(), node->name()});
    }
  return refuse(model.location, operators);
}

namespace {
/// How many inputs of later nodes each value is: what nobody reads any more is let go.
class Readers {
public:
  Readers(ArrayRef<const onnx::NodeProto *> nodes, ArrayRef<std::string> outputs) {
    for (const onnx::NodeProto *node : nodes)
      for (const std::string &name : readNames(*node))
        ++count[name];
    for (const std::string &name : outputs)
      ++count[name];
  }

  /// The values that nobody reads after this node.
  std::vector<std::string> finish(const onnx::NodeProto &node) {
    std::vector<std::string> ended;
    for (const std::string &name : readNames(node))
      if (--count[name] == 0)
        ended.push_back(name);
    for (const std::string &name : node.output())
      if (!count.contains(name))
        ended.push_back(name);
    return ended;
  }

private:
  llvm::StringMap<int64_t> count;
};
} // namespace

LogicalResult convertNode(const onnx::NodeProto &node, Emitter &emit,
                          llvm::StringMap<Tensor> &values, TensorReader &tensors, Budget &budget) {
  emit.setLoc(NameLoc::get(StringAttr::get(emit.getContext(), node.name())));
  NodeConverter converter(node, emit, values, tensors, budget);
  const Operator op =
      isDefaultDomain(node.domain()) ? converters().lookup(node.op_type()) : Operator();
  if (!op.convert)
    return unsupported(converter.error()) << "is not supported";
  if (failed(checkInputs(converter, op)) || failed(op.convert(converter)))
    return failure();
  for (const std::string &name : node.output())
    if (auto found = values.find(name); found != values.end())
      if (failed(converter.checkResult(found->second)))
        return failure();
  return success();
}

LogicalResult convertNodes(const Model &model, ArrayRef<std::string> outputs, Emitter &emit,
                           llvm::StringMap<Tensor> &values, TensorReader &tensors, Budget &budget) {
  const auto live = liveValues(model, outputs);
  std::vector<const onnx::NodeProto *> nodes;
  std::set<std::string> undefined, defined;
  for (const onnx::NodeProto *node : model.nodes) {
    if (llvm::none_of(node->output(), [&](const auto &name) { return live.contains(name); }))
      continue;
    nodes.push_back(node);
    for (const std::string &name : readNames(*node))
      if (!name.empty() && !values.contains(name) && !defined.contains(name))
        undefined.insert(name);
    defined.insert(node->output().begin(), node->output().end());
  }
  if (failed(checkSupported(model, nodes)))
    return failure();
  if (!undefined.empty()) {
    InFlightDiagnostic diagnostic = emitError(model.location)
                                    << "reads values that the file neither defines nor gives a "
                                       "shape (export with keep_initializers_as_inputs=True): ";
    llvm::interleaveComma(undefined, diagnostic);
    return diagnostic;
  }
  Readers readers(nodes, outputs);
  for (const onnx::NodeProto *node : nodes) {
    if (node->op_type() == "Constant" && values.contains(node->output(0)))
      continue; // read like an initializer
    if (failed(convertNode(*node, emit, values, tensors, budget)))
      return failure();
    for (const std::string &name : node->output())
      if (!name.empty() && live.contains(name) && !values.contains(name))
        return unsupported(NodeConverter(*node, emit, values, tensors, budget).error())
               << "the output " << name << " is not supported";
    for (const std::string &name : readers.finish(*node))
      if (auto found = values.find(name); found != values.end()) {
        if (Host host = found->second.host)
          budget.release(host->bytes());
        values.erase(found);
      }
  }
  return success();
}

} // namespace dtc::import
