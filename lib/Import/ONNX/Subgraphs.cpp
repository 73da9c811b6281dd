#include "Subgraphs.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dtc::import {

static void addOuterNames(const onnx::GraphProto &graph, std::vector<std::string> &names);

static void addReadNames(const onnx::NodeProto &node, std::vector<std::string> &names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g())
      addOuterNames(attribute.g(), names);
    for (const auto &graph : attribute.graphs())
      addOuterNames(graph, names);
  }
}

/// What a graph reads and doesn't define itself.
static void addOuterNames(const onnx::GraphProto &graph, std::vector<std::string> &names) {
  std::vector<std::string> read;
  llvm::StringSet<> own;
  for (const auto &input : graph.input())
    own.insert(input.name());
  for (const auto &tensor : graph.initializer())
    own.insert(tensor.name());
  for (const auto &node : graph.node()) {
    addReadNames(node, read);
    for (const std::string &name : node.output())
      own.insert(name);
  }
  for (const auto &output : graph.output())
    read.push_back(output.name());
  for (std::string &name : read)
    if (!name.empty() && !own.contains(name))
      names.push_back(std::move(name));
}

std::vector<std::string> readNames(const onnx::NodeProto &node) {
  std::vector<std::string> names;
  addReadNames(node, names);
  return names;
}

namespace {
/// The names that a graph defines. What they meant outside is put back in the end.
class NameScope {
public:
  explicit NameScope(llvm::StringMap<Tensor> &values) : values(values) {}
  ~NameScope() {
    for (auto &[name, outer] : saved) {
      values.erase(name);
      if (outer)
        values[name] = std::move(*outer);
    }
  }

  /// False where the graph has defined the name already.
  bool define(const std::string &name) {
    if (name.empty())
      return true;
    auto [entry, fresh] = saved.try_emplace(name);
    if (auto found = values.find(name); fresh && found != values.end()) {
      entry->second = found->second;
      values.erase(found);
    }
    return fresh;
  }

private:
  llvm::StringMap<Tensor> &values;
  std::map<std::string, std::optional<Tensor>> saved;
};
} // namespace

static LogicalResult convertNodesOf(NodeConverter &node, const onnx::GraphProto &graph,
                                    NameScope &scope) {
  for (const auto &inner : graph.node()) {
    if (failed(node.chargeNodes(1)))
      return failure();
    for (const std::string &name : readNames(inner))
      if (!name.empty() && !node.values.contains(name))
        return node.error() << "its graph reads a value that isn't defined before: " << name;
    for (const std::string &name : inner.output())
      if (!scope.define(name))
        return node.error() << "its graph defines a value twice: " << name;
    if (failed(convertNode(inner, node.emit, node.values, node.tensors, node.budget)))
      return failure();
  }
  return success();
}

FailureOr<std::vector<Tensor>> convertGraph(NodeConverter &node, const onnx::GraphProto &graph,
                                            ArrayRef<Tensor> inputs) {
  if (graph.input_size() != int(inputs.size()))
    return LogicalResult(node.error() << "its graph takes " << graph.input_size() << " inputs, not "
                                      << inputs.size());
  NameScope scope(node.values);
  for (auto [info, tensor] : llvm::zip_equal(graph.input(), inputs)) {
    if (!scope.define(info.name()))
      return LogicalResult(node.error() << "its graph has two inputs named " << info.name());
    node.values[info.name()] = tensor;
  }
  for (const auto &tensor : graph.initializer()) {
    auto weight = node.tensors.read(tensor);
    if (failed(weight))
      return failure();
    Host constant =
        HostTensor::ofWeight(elementType(node.emit.getContext(), tensor.data_type()), *weight);
    if (!constant || !scope.define(tensor.name()))
      return LogicalResult(node.error() << "its graph holds a tensor twice, or of more than 1 MiB: "
                                        << tensor.name());
    node.values[tensor.name()] = Tensor(constant);
    if (failed(node.chargeFolded(node.values[tensor.name()])))
      return failure();
  }
  if (failed(convertNodesOf(node, graph, scope)))
    return failure();
  std::vector<Tensor> outputs;
  for (const auto &output : graph.output()) {
    auto found = node.values.find(output.name());
    if (found == node.values.end())
      return LogicalResult(node.error() << "its graph lacks its output " << output.name());
    outputs.push_back(found->second);
  }
  return outputs;
}

} // namespace dtc::import
