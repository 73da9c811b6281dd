#include "GraphBuilder.h"

#include <set>

using namespace mlir;

namespace dtc::import {

const ConverterTable &converters() {
  static const ConverterTable table = [] {
    ConverterTable all;
    addElementwiseConverters(all);
    addShapeConverters(all);
    addMovementConverters(all);
    addIndexConverters(all);
    addContractionConverters(all);
    addReductionConverters(all);
    addNormConverters(all);
    addAttentionConverters(all);
    addVisionConverters(all);
    addSequenceConverters(all);
    return all;
  }();
  return table;
}

NodeConverter::NodeConverter(const onnx::NodeProto &node, int64_t opset, Emitter &emit,
                             llvm::StringMap<Tensor> &values, TensorReader &tensors,
                             Location fileLocation)
    : node(node), opset(opset), emit(emit), tensors(tensors), values(values),
      fileLocation(fileLocation) {}

bool NodeConverter::has(int index) const {
  return index < node.input_size() && !node.input(index).empty();
}

bool NodeConverter::hasOutput(int index) const {
  return index < node.output_size() && !node.output(index).empty();
}

const Tensor &NodeConverter::input(int index) const {
  return values.find(node.input(index))->second;
}

bool NodeConverter::allHost() const {
  for (int i = 0; i < numInputs(); ++i)
    if (has(i) && !host(i))
      return false;
  return true;
}

Value NodeConverter::value(const Tensor &tensor) {
  return tensor.host ? toValue(emit, emit.getLoc(), *tensor.host) : tensor.value;
}

Value NodeConverter::valueAs(const Tensor &tensor, ArrayRef<int64_t> shape) {
  if (tensor.host)
    return toValue(emit, emit.getLoc(), *expandHost(tensor.host, shape));
  return broadcastTo(emit, tensor.value, shape);
}

FailureOr<Shape> NodeConverter::ints(int index, StringRef what) {
  if (!has(index))
    return error() << "needs its input " << what;
  if (Host constant = host(index))
    return constant->intList();
  return error() << what << " must be known while compiling: " << node.input(index);
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

FailureOr<int64_t> NodeConverter::axis(int64_t axis, int64_t rank) {
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return error() << "axis out of range for rank " << rank << ": " << axis;
  return at;
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
  if (hasOutput(output))
    values[node.output(output)] = std::move(tensor);
  return success();
}

InFlightDiagnostic NodeConverter::error() const {
  return emitError(fileLocation) << "node " << node.name() << " (" << node.op_type() << "): ";
}

llvm::StringMap<bool> liveValues(const Model &model, ArrayRef<std::string> outputs) {
  llvm::StringMap<bool> live;
  for (const std::string &name : outputs)
    live[name] = true;
  for (const onnx::NodeProto *node : llvm::reverse(model.nodes))
    if (llvm::any_of(node->output(), [&](const auto &name) { return live.contains(name); }))
      for (const std::string &name : node->input())
        live[name] = true;
  return live;
}

/// Reports every live node whose operator has no converter.
static LogicalResult checkSupported(const Model &model,
                                    ArrayRef<const onnx::NodeProto *> nodes) {
  std::vector<std::string> unsupported;
  for (const onnx::NodeProto *node : nodes)
    if (!isDefaultDomain(node->domain()) || !converters().contains(node->op_type())) {
      const std::string domain = isDefaultDomain(node->domain()) ? "" : node->domain() + ".";
      unsupported.push_back(domain + node->op_type() + " (" + node->name() + ")");
    }
  if (unsupported.empty())
    return success();
  InFlightDiagnostic diagnostic = emitError(model.location) << "unsupported operators: ";
  llvm::interleaveComma(unsupported, diagnostic);
  return diagnostic;
}

LogicalResult convertNodes(const Model &model, ArrayRef<std::string> outputs, Emitter &emit,
                           llvm::StringMap<Tensor> &values, TensorReader &tensors) {
  const auto live = liveValues(model, outputs);
  std::vector<const onnx::NodeProto *> nodes;
  std::set<std::string> undefined, defined;
  for (const onnx::NodeProto *node : model.nodes) {
    if (llvm::none_of(node->output(), [&](const auto &name) { return live.contains(name); }))
      continue;
    nodes.push_back(node);
    for (const std::string &name : node->input())
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
  for (const onnx::NodeProto *node : nodes) {
    emit.setLoc(NameLoc::get(StringAttr::get(emit.getContext(), node->name())));
    NodeConverter converter(*node, model.opset, emit, values, tensors,
                            model.location);
    for (int i = 0; i < node->input_size(); ++i)
      if (converter.has(i) && converter.input(i).isSequence &&
          node->op_type() != "SequenceAt" && node->op_type() != "ConcatFromSequence" &&
          node->op_type() != "SequenceLength" && node->op_type() != "Identity")
        return converter.error() << "cannot take a sequence: " << node->input(i);
    if (failed(converters().lookup(node->op_type())(converter)))
      return failure();
    for (const std::string &name : node->output())
      if (!name.empty() && live.contains(name) && !values.contains(name))
        return converter.error() << "the output " << name << " is not supported";
  }
  return success();
}

} // namespace dtc::import
