#include "Model.h"

#include "Subgraphs.h"

#include "dtc-io/InputFile.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/wire_format_lite.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>
#include <unistd.h>

using namespace mlir;

namespace dtc::import {

static constexpr int64_t kFirstOpset = 7, kLastOpset = 26;

bool isDefaultDomain(const std::string &domain) { return domain.empty() || domain == "ai.onnx"; }

std::string metadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &props,
                     const std::string &key) {
  for (const auto &entry : props)
    if (entry.key() == key)
      return entry.value();
  return {};
}

namespace {
/// Counts the entries of a model's graph and functions, and those of their nodes. Two bytes of a
/// file become some hundred of memory, so that they are counted before they are made.
class EntryCounter {
public:
  explicit EntryCounter(int descriptor) : stream(descriptor), input(&stream) {}

  int64_t run() {
    walk([](uint32_t number) {
      return number == onnx::ModelProto::kGraphFieldNumber       ? Graph
             : number == onnx::ModelProto::kFunctionsFieldNumber ? Function
                                                                 : Leaf;
    });
    return entries;
  }

private:
  enum Message { Graph, Function, Node, Attribute, Leaf };

  void walk(llvm::function_ref<Message(uint32_t)> messageOf) {
    using Format = google::protobuf::internal::WireFormatLite;
    while (const uint32_t tag = input.ReadTag()) {
      ++entries;
      const Message message = messageOf(Format::GetTagFieldNumber(tag));
      uint32_t size;
      if (message == Leaf || Format::GetTagWireType(tag) != Format::WIRETYPE_LENGTH_DELIMITED) {
        if (!Format::SkipField(&input, tag))
          return;
        continue;
      }
      if (!input.ReadVarint32(&size))
        return;
      const auto limit = input.PushLimit(size);
      if (++depth <= kMostNested) // deeper ones aren't parsed either
        walk([&](uint32_t number) { return messageIn(message, number); });
      --depth;
      input.Skip(std::max(input.BytesUntilLimit(), 0));
      input.PopLimit(limit);
    }
  }

  static Message messageIn(Message message, uint32_t number) {
    using onnx::AttributeProto;
    switch (message) {
    case Graph:
      return number == onnx::GraphProto::kNodeFieldNumber ? Node : Leaf;
    case Function:
      return number == onnx::FunctionProto::kNodeFieldNumber ? Node : Leaf;
    case Node:
      return number == onnx::NodeProto::kAttributeFieldNumber ? Attribute : Leaf;
    case Attribute:
      return number == AttributeProto::kGFieldNumber || number == AttributeProto::kGraphsFieldNumber
                 ? Graph
                 : Leaf;
    case Leaf:
      break;
    }
    return Leaf;
  }

  /// Protobuf's own limit of messages inside of one another.
  static constexpr int kMostNested = 100;

  google::protobuf::io::FileInputStream stream;
  google::protobuf::io::CodedInputStream input;
  int64_t entries = 0;
  int depth = 0;
};
} // namespace

static LogicalResult parse(Model &model) {
  std::string why;
  std::optional<io::InputFile> file = io::InputFile::open(model.path, why);
  if (!file)
    return emitError(model.location) << "cannot read the model: " << why;
  if (file->size() > uint64_t(INT32_MAX))
    return emitError(model.location)
           << "the file is larger than 2 GiB, which ONNX does not allow; keep its weights as "
              "external data";
  if (const int64_t entries = EntryCounter(file->descriptor()).run();
      entries > Budget::kMostEntries)
    return emitError(model.location) << "has more than " << Budget::kMostEntries
                                     << " entries in its graph and nodes: " << entries;
  ::lseek(file->descriptor(), 0, SEEK_SET);
  model.arena = std::make_shared<google::protobuf::Arena>();
  model.proto = google::protobuf::Arena::CreateMessage<onnx::ModelProto>(model.arena.get());
  // Read piece by piece, not mapped: a file that is truncated meanwhile is a malformed one.
  google::protobuf::io::FileInputStream stream(file->descriptor());
  google::protobuf::io::CodedInputStream input(&stream);
  if (!model.proto->ParseFromCodedStream(&input) || !input.ConsumedEntireMessage() ||
      !model.proto->has_graph())
    return emitError(model.location) << "is not a complete ONNX model (truncated or malformed)";
  return success();
}

static LogicalResult checkOpset(Model &model) {
  for (const auto &entry : model.proto->opset_import())
    if (isDefaultDomain(entry.domain()))
      model.opset = entry.version();
  if (model.opset < kFirstOpset)
    return emitError(model.location) << "opset versions from " << kFirstOpset
                                     << " on are supported, the file has " << model.opset;
  if (model.opset > kLastOpset)
    emitWarning(model.location) << "has opset " << model.opset
                                << ", dtc knows operators up to opset " << kLastOpset
                                << "; what changed since is not known";
  return success();
}

namespace {
/// Replaces calls of the file's own functions by their bodies.
class Inliner {
public:
  explicit Inliner(Model &model) : model(model) {
    for (const auto &function : model.proto->functions())
      functions[key(function.domain(), function.name(), function.overload())] = &function;
  }

  LogicalResult run() {
    for (const auto &node : model.graph().node())
      if (failed(add(node, /*depth=*/0)))
        return failure();
    return success();
  }

private:
  static std::string key(const std::string &domain, const std::string &name,
                         const std::string &overload) {
    return (isDefaultDomain(domain) ? "" : domain) + '\0' + name + '\0' + overload;
  }

  LogicalResult add(const onnx::NodeProto &node, int depth) {
    if (failed(charge(node, model.budget.takeNodes(1))))
      return failure();
    auto found = functions.find(key(node.domain(), node.op_type(), node.overload()));
    if (found == functions.end()) {
      model.nodes.push_back(&node);
      return success();
    }
    if (depth == Budget::kMostDepth)
      return emitError(model.location) << "functions call each other more than "
                                       << Budget::kMostDepth << " deep: " << node.op_type();
    const onnx::FunctionProto &function = *found->second;
    constexpr int64_t kNameBytes = 64; // at least, in a map of names
    if (failed(charge(node, model.budget.hold(kNameBytes *
                                              (function.input_size() + function.output_size())))))
      return failure();
    const std::string prefix = node.name() + "/" + std::to_string(calls++) + "/";
    std::map<std::string, std::string> names;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    for (int i = 0; i < function.output_size(); ++i)
      names[function.output(i)] = i < node.output_size() && !node.output(i).empty()
                                      ? node.output(i)
                                      : prefix + function.output(i);
    for (const auto &inner : function.node()) {
      const onnx::NodeProto *copy = instantiate(inner, node, function, names, prefix);
      if (failed(charge(node, model.budget.hold(copy->ByteSizeLong()))) ||
          failed(add(*copy, depth + 1)))
        return failure();
    }
    return success();
  }

  LogicalResult charge(const onnx::NodeProto &node, StringRef error) const {
    if (error.empty())
      return success();
    return emitError(model.location) << "inlining " << node.op_type() << " " << error;
  }

  onnx::NodeProto *instantiate(const onnx::NodeProto &inner, const onnx::NodeProto &call,
                               const onnx::FunctionProto &function,
                               std::map<std::string, std::string> &names,
                               const std::string &prefix) {
    auto *copy = google::protobuf::Arena::CreateMessage<onnx::NodeProto>(model.arena.get());
    *copy = inner;
    copy->set_name(prefix + inner.name());
    auto rename = [&](std::string *name) {
      if (!name->empty())
        *name = names.try_emplace(*name, prefix + *name).first->second;
    };
    for (std::string &name : *copy->mutable_input())
      rename(&name);
    for (std::string &name : *copy->mutable_output())
      rename(&name);
    bindAttributes(*copy, inner, call, function);
    for (auto &attribute : *copy->mutable_attribute()) {
      if (attribute.has_g())
        instantiateGraph(*attribute.mutable_g(), call, function, rename);
      for (auto &graph : *attribute.mutable_graphs())
        instantiateGraph(graph, call, function, rename);
    }
    return copy;
  }

  static void bindAttributes(onnx::NodeProto &copy, const onnx::NodeProto &inner,
                             const onnx::NodeProto &call, const onnx::FunctionProto &function) {
    copy.clear_attribute();
    for (const auto &attribute : inner.attribute())
      if (const onnx::AttributeProto *bound = bind(attribute, call, function)) {
        *copy.add_attribute() = *bound;
        copy.mutable_attribute()->rbegin()->set_name(attribute.name());
      }
  }

  /// A graph inside of a node of a function.
  static void instantiateGraph(onnx::GraphProto &graph, const onnx::NodeProto &call,
                               const onnx::FunctionProto &function,
                               llvm::function_ref<void(std::string *)> rename) {
    for (auto *values : {graph.mutable_input(), graph.mutable_output()})
      for (auto &value : *values)
        rename(value.mutable_name());
    for (auto &tensor : *graph.mutable_initializer())
      rename(tensor.mutable_name());
    for (auto &node : *graph.mutable_node()) {
      const onnx::NodeProto inner = node;
      bindAttributes(node, inner, call, function);
      for (auto *names : {node.mutable_input(), node.mutable_output()})
        for (std::string &name : *names)
          rename(&name);
      for (auto &attribute : *node.mutable_attribute()) {
        if (attribute.has_g())
          instantiateGraph(*attribute.mutable_g(), call, function, rename);
        for (auto &each : *attribute.mutable_graphs())
          instantiateGraph(each, call, function, rename);
      }
    }
  }

  /// The attribute's value inside the call; null when it is absent there.
  static const onnx::AttributeProto *bind(const onnx::AttributeProto &attribute,
                                          const onnx::NodeProto &call,
                                          const onnx::FunctionProto &function) {
    if (attribute.ref_attr_name().empty())
      return &attribute;
    for (const auto &given : call.attribute())
      if (given.name() == attribute.ref_attr_name())
        return &given;
    for (const auto &byDefault : function.attribute_proto())
      if (byDefault.name() == attribute.ref_attr_name())
        return &byDefault;
    return nullptr;
  }

  Model &model;
  std::map<std::string, const onnx::FunctionProto *> functions;
  int64_t calls = 0;
};
} // namespace

static LogicalResult refuseRepeated(const Model &model, const auto &list, StringRef what) {
  llvm::StringSet<> names;
  for (const auto &item : list)
    if (!names.insert(item.name()).second)
      return emitError(model.location) << "has two " << what << " named " << item.name();
  return success();
}

/// Every value has one name and one definition, and is returned once.
static LogicalResult checkNames(const Model &model) {
  const onnx::GraphProto &graph = model.graph();
  if (failed(refuseRepeated(model, graph.input(), "inputs")) ||
      failed(refuseRepeated(model, graph.initializer(), "initializers")) ||
      failed(refuseRepeated(model, graph.output(), "outputs")))
    return failure();
  llvm::StringSet<> given;
  for (const auto &input : graph.input())
    given.insert(input.name());
  for (const auto &initializer : graph.initializer())
    given.insert(initializer.name());
  for (const onnx::NodeProto *node : model.nodes)
    for (const std::string &name : node->output())
      if (!name.empty() && given.contains(name))
        return emitError(model.location) << "node " << node->name()
                                         << " defines an input or initializer: " << name;
  return success();
}

/// Sorts the nodes so that values are defined before they are read. Files are
/// nearly always sorted already; what cannot be sorted is a cycle.
static LogicalResult sortNodes(Model &model) {
  llvm::StringMap<size_t> producer;
  for (size_t i = 0; i < model.nodes.size(); ++i)
    for (const std::string &name : model.nodes[i]->output())
      if (!name.empty() && !producer.try_emplace(name, i).second)
        return emitError(model.location) << "two nodes define the value " << name;
  std::vector<size_t> waiting(model.nodes.size());
  std::vector<std::vector<size_t>> readers(model.nodes.size());
  for (size_t i = 0; i < model.nodes.size(); ++i)
    for (const std::string &name : readNames(*model.nodes[i]))
      if (auto found = producer.find(name); found != producer.end()) {
        ++waiting[i];
        readers[found->second].push_back(i);
      }
  std::set<size_t> ready; // lowest position first, which keeps the file's order
  for (size_t i = 0; i < waiting.size(); ++i)
    if (waiting[i] == 0)
      ready.insert(i);
  std::vector<const onnx::NodeProto *> sorted;
  while (!ready.empty()) {
    const size_t next = *ready.begin();
    ready.erase(ready.begin());
    sorted.push_back(model.nodes[next]);
    for (size_t reader : readers[next])
      if (--waiting[reader] == 0)
        ready.insert(reader);
  }
  if (sorted.size() != model.nodes.size()) {
    for (size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i] > 0)
        return emitError(model.location)
               << "the graph has a cycle through the node " << model.nodes[i]->name();
  }
  model.nodes = std::move(sorted);
  return success();
}

FailureOr<Model> loadModel(MLIRContext &context, const std::string &path) {
  Model model(FileLineColLoc::get(&context, path, 0, 0));
  model.path = path;
  if (failed(parse(model)) || failed(checkOpset(model)) || failed(Inliner(model).run()) ||
      failed(checkNames(model)) || failed(sortNodes(model)))
    return failure();
  return model;
}

} // namespace dtc::import
