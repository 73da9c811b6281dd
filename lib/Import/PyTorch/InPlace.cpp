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

namespace {
class Renamer {
public:
  Renamer(AtenGraph &graph, Location file) : graph(graph), file(file) {
    for (const AtenTensor &tensor : graph.tensors)
      owned[tensor.value] = tensor.value;
    for (const FileInput &input : graph.inputs)
      owned[input.name] = input.name;
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
      for (NamedArgument &argument : node.arguments)
        forEachName(argument.value, [&](std::string &name) { name = current(name); });
      if (!changed.empty() && failed(change(i, node, changed)))
        return failure();
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

  /// The node at `at` changes `name`: whoever reads that later means the node's result.
  LogicalResult change(size_t at, const AtenNode &node, const std::string &name) {
    const std::string now = current(name), root = rootOf(now);
    auto refuse = [&](const std::string &why) {
      return emitError(file) << "node " << node.name << " (" << node.op
                             << (node.source.empty() ? "" : ", " + node.source) << "): " << why;
    };
    if (owned.contains(root))
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
    for (auto &[from, to] : renamed)
      if (to == now)
        to = node.results[0];
    renamed[name] = renamed[now] = node.results[0];
    return success();
  }

  AtenGraph &graph;
  Location file;
  std::map<std::string, std::string> owned;   ///< inputs and weights
  std::map<std::string, std::string> roots;   ///< what each view shares its elements with
  std::map<std::string, std::string> renamed; ///< what a name means now
  std::map<std::string, size_t> lastRead;
};
} // namespace

LogicalResult makeFunctional(AtenGraph &graph, Location file) {
  const bool any =
      llvm::any_of(graph.nodes, [](const AtenNode &node) { return worksInPlace(node.op); });
  return any ? Renamer(graph, file).run() : success();
}

} // namespace dtc::import
