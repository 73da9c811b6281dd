#include "InPlace.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;

namespace dtc::import {

/// "add_" of aten.add_.Tensor.
static StringRef baseOf(StringRef op) { return op.split('.').second.split('.').first; }

static bool worksInPlace(StringRef op) {
  return baseOf(op).ends_with("_") && !baseOf(op).ends_with("__");
}

/// Whether results may share elements with the first argument.
static bool mayAlias(StringRef op) {
  static const llvm::StringSet<> views = {
      "alias",     "chunk",   "contiguous", "detach",           "diagonal",  "dropout",  "expand",
      "expand_as", "flatten", "lift_fresh", "narrow",           "permute",   "positive", "reshape",
      "select",    "slice",   "split",      "split_with_sizes", "squeeze",   "t",        "to",
      "transpose", "type_as", "unbind",     "unflatten",        "unsqueeze", "view",     "view_as",
      "mT",        "movedim", "unfold",     "_unsafe_view",     "numpy_T"};
  return views.contains(baseOf(op));
}

/// The operators of batch norm that say in an argument whether they train, or that never do.
static bool isBatchNorm(StringRef op) {
  static const llvm::StringSet<> ops = {"batch_norm", "_native_batch_norm_legit",
                                        "_native_batch_norm_legit_no_training"};
  return ops.contains(baseOf(op));
}

static const Argument *argumentOf(const AtenNode &node, StringRef name) {
  for (const NamedArgument &argument : node.arguments)
    if (argument.name == name)
      return &argument.value;
  return nullptr;
}

static bool trains(const AtenNode &node, BatchNormMode norms) {
  if (!isBatchNorm(node.op))
    return false;
  const Argument *training = argumentOf(node, "training");
  const bool *flag = training ? training->as<bool>() : nullptr;
  return norms == BatchNormMode::Train || (flag && *flag);
}

static void forEachName(Argument &argument, llvm::function_ref<void(std::string &)> visit) {
  if (auto *value = std::get_if<ValueName>(&argument.value))
    visit(value->name);
  if (auto *list = std::get_if<ArgumentList>(&argument.value))
    for (Argument &each : *list)
      forEachName(each, visit);
}

static ValueName *firstArgument(AtenNode &node) {
  return node.arguments.empty() ? nullptr
                                : std::get_if<ValueName>(&node.arguments.front().value.value);
}

llvm::StringSet<> changedValues(const AtenGraph &graph) {
  llvm::StringSet<> changed;
  for (const auto &[buffer, value] : graph.bufferChanges)
    changed.insert(buffer);
  for (const AtenNode &node : graph.nodes)
    if (worksInPlace(node.op) && !node.arguments.empty())
      if (const auto *self = node.arguments.front().value.as<ValueName>())
        changed.insert(self->name);
  return changed;
}

namespace {
class Renamer {
public:
  Renamer(AtenGraph &graph, BatchNormMode norms, Location file)
      : graph(graph), norms(norms), file(file) {
    for (const AtenTensor &tensor : graph.tensors)
      (tensor.tensor.kind == TensorKind::Buffer ? buffers : owned).insert(tensor.value);
    for (const FileInput &input : graph.inputs)
      owned.insert(input.name);
    for (auto [i, node] : llvm::enumerate(graph.nodes))
      for (NamedArgument &argument : node.arguments)
        forEachName(argument.value, [&](std::string &name) { lastRead[name] = i; });
    for (const std::string &name : graph.outputs)
      lastRead[name] = graph.nodes.size();
  }

  LogicalResult run() {
    for (auto [i, node] : llvm::enumerate(graph.nodes)) {
      ValueName *self = firstArgument(node);
      const std::string changed = self && worksInPlace(node.op) ? self->name : "";
      const bool moves = trains(node, norms);
      const std::string running[] = {nameIn(node, "running_mean"), nameIn(node, "running_var")};
      for (NamedArgument &argument : node.arguments)
        forEachName(argument.value, [&](std::string &name) { name = current(name); });
      if (!changed.empty() && failed(change(i, node, changed)))
        return failure();
      if (moves)
        moveStatistics(node, running);
      if (self && mayAlias(node.op))
        for (const std::string &result : node.results)
          roots[result] = rootOf(self->name);
    }
    for (std::string &name : graph.outputs)
      name = current(name);
    return success();
  }

private:
  std::string current(const std::string &name) const {
    auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  }
  std::string rootOf(const std::string &name) const {
    auto found = roots.find(name);
    return found == roots.end() ? name : found->second;
  }

  static std::string nameIn(const AtenNode &node, StringRef argument) {
    const Argument *given = argumentOf(node, argument);
    const ValueName *value = given ? given->as<ValueName>() : nullptr;
    return value ? value->name : "";
  }

  /// Whoever reads the running statistics later means the new ones.
  void moveStatistics(AtenNode &node, ArrayRef<std::string> running) {
    node.op = "aten._native_batch_norm_legit_functional.default";
    node.results.resize(1);
    node.results.resize(3); // behind it the batch's statistics, which nobody reads
    for (const std::string &name : running) {
      node.results.push_back(name.empty() ? "" : node.results[0] + " of " + name);
      if (!name.empty())
        replaced(name, current(name), node.results.back());
    }
  }

  /// What was `name`, and is `now`, is `fresh` from here on.
  void replaced(const std::string &name, const std::string &now, const std::string &fresh) {
    for (auto &[from, to] : renamed)
      if (to == now)
        to = fresh;
    renamed[name] = renamed[now] = fresh;
    if (buffers.contains(name))
      graph.bufferChanges[name] = fresh;
  }

  /// The node at `at` changes `name`: whoever reads that later means the node's result.
  LogicalResult change(size_t at, const AtenNode &node, const std::string &name) {
    const std::string now = current(name), root = rootOf(now);
    auto refuse = [&](const std::string &why) {
      return emitError(file) << "node " << node.name << " (" << node.op
                             << (node.source.empty() ? "" : ", " + node.source) << "): " << why;
    };
    if (owned.contains(root) || (buffers.contains(root) && root != now))
      return refuse("changes an input or a weight in place: " + root);
    auto reads = [&](const std::string &other) {
      auto found = lastRead.find(other);
      return other != name && found != lastRead.end() && found->second > at;
    };
    // Earlier names of a value may be what the program still calls it.
    auto isReadLater = [&](const std::string &other) {
      return reads(other) || llvm::any_of(renamed, [&](const auto &pair) {
               return pair.second == other && reads(pair.first);
             });
    };
    for (const auto &[other, of] : roots)
      if (of == root && other != now && isReadLater(other))
        return refuse("changes " + name + " in place while " + other +
                      ", which shares its elements, is read later; save "
                      "torch.export.export(...).run_decompositions()");
    if (root != now && isReadLater(root))
      return refuse("changes a part of " + root +
                    " in place; save torch.export.export(...).run_decompositions()");
    if (node.results.empty())
      return refuse("has no result");
    replaced(name, now, node.results[0]);
    return success();
  }

  AtenGraph &graph;
  BatchNormMode norms;
  Location file;
  llvm::StringSet<> owned, buffers;           ///< inputs and weights; what may be replaced
  std::map<std::string, std::string> roots;   ///< what each view shares its elements with
  std::map<std::string, std::string> renamed; ///< what a name means now
  std::map<std::string, size_t> lastRead;
};
} // namespace

LogicalResult makeFunctional(AtenGraph &graph, BatchNormMode norms, Location file) {
  const bool any = llvm::any_of(graph.nodes, [&](const AtenNode &node) {
    return worksInPlace(node.op) || trains(node, norms);
  });
  return any ? Renamer(graph, norms, file).run() : success();
}

} // namespace dtc::import
