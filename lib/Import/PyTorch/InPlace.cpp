#include "InPlace.h"

#include "Views.h"

#include "dtc/Import/Build/Norms.h"
#include "dtc/Import/Unsupported.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;

namespace dtc::import {

static bool worksInPlace(StringRef op) {
  return baseOf(op).ends_with("_") && !baseOf(op).ends_with("__");
}

/// The operators of batch norm that say in an argument whether they train, or that never do.
static bool isBatchNorm(StringRef op) {
  static const llvm::StringSet<> ops = {"batch_norm", "_native_batch_norm_legit",
                                        "_native_batch_norm_legit_no_training"};
  return ops.contains(baseOf(op));
}

static bool trains(const AtenNode &node, BatchNormMode norms) {
  if (!isBatchNorm(node.op))
    return false;
  const Argument *training = node.argument("training");
  const bool *flag = training ? training->as<bool>() : nullptr;
  return norms == BatchNormMode::Train || (flag && *flag);
}

/// Whether the momentum may be another one: exports in eval mode write 0 for none.
static bool mayHideMomentum(const AtenNode &node) {
  const Argument *training = node.argument("training"), *momentum = node.argument("momentum");
  const bool *flag = training ? training->as<bool>() : nullptr;
  const double *number = momentum ? momentum->as<double>() : nullptr;
  return number && *number == 0 && !(flag && *flag);
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
  std::map<std::string, std::string> wholes; // of views
  auto wholeOf = [&](const std::string &name) {
    auto view = wholes.find(name);
    return view == wholes.end() ? name : view->second;
  };
  for (const AtenNode &node : graph.nodes) {
    const auto *self =
        node.arguments.empty() ? nullptr : node.arguments.front().value.as<ValueName>();
    const bool changes = self && worksInPlace(node.op);
    if (changes)
      changed.insert(wholeOf(self->name));
    for (auto [i, result] : llvm::enumerate(node.results))
      if (const ValueName *of = changes ? self : sharedBy(node, i))
        wholes[result] = wholeOf(of->name);
  }
  return changed;
}

namespace {
/// Rewrites the nodes in order. A value has a name in the program, which it keeps when it is
/// changed, and after each change another one in the result.
class Renamer {
public:
  Renamer(AtenGraph &graph, BatchNormMode norms, Location file, Budget &budget)
      : graph(graph), norms(norms), file(file), budget(budget) {
    for (const AtenTensor &tensor : graph.tensors)
      (tensor.tensor.kind == TensorKind::Buffer ? buffers : owned).insert(tensor.value);
    for (const FileInput &input : graph.inputs)
      owned.insert(input.name);
    for (auto [i, node] : llvm::enumerate(graph.nodes))
      for (NamedArgument &argument : node.arguments)
        forEachName(argument.value, [&](std::string &name) { lastRead[name] = i; });
    for (const std::string &name : graph.outputs)
      lastRead[name] = graph.nodes.size();
    for (const auto &[buffer, value] : graph.bufferChanges)
      lastRead[value] = graph.nodes.size();
  }

  LogicalResult run() {
    std::vector<AtenNode> nodes = std::move(graph.nodes);
    for (now = 0; now < nodes.size(); ++now)
      if (failed(rewrite(std::move(nodes[now]))))
        return failure();
    for (std::string &name : graph.outputs)
      if (failed(bring(name)))
        return failure();
    for (auto &[buffer, value] : graph.bufferChanges)
      if (failed(bring(value)))
        return failure();
    graph.nodes = std::move(made);
    return success();
  }

private:
  /// What a name of the program is called in the result, and of which change of what it shares
  /// its elements with it knows.
  struct Current {
    std::string name;
    size_t change = 0;
  };
  /// A value that shares its elements with none before it.
  struct Base {
    size_t changes = 0;
    std::vector<std::string> family; ///< all names in the program of what shares its elements
    AtenNode last;                   ///< that changed it, without arguments
  };

  /// What an operator in place gives is the value that it changed.
  const std::string &meant(const std::string &name) const {
    auto found = same.find(name);
    return found == same.end() ? name : found->second;
  }
  const std::string &baseOfValue(const std::string &name) const {
    auto found = baseNames.find(name);
    return found == baseNames.end() ? name : found->second;
  }
  std::string current(const std::string &name) const {
    auto found = currents.find(meant(name));
    return found == currents.end() ? name : found->second.name;
  }
  bool isCurrent(const std::string &name) const {
    auto found = currents.find(name);
    auto base = bases.find(baseOfValue(name));
    return base == bases.end() ||
           (found == currents.end() ? 0 : found->second.change) == base->second.changes;
  }

  InFlightDiagnostic error(const AtenNode &node) const {
    return emitError(file) << "node " << node.name << " (" << node.op
                           << (node.source.empty() ? "" : ", " + node.source) << "): ";
  }
  LogicalResult charge(const AtenNode &node, int64_t count) {
    StringRef over = budget.takeNodes(count);
    return over.empty() ? success() : LogicalResult(error(node) << over);
  }

  LogicalResult rewrite(AtenNode node) {
    const AtenNode given = node;
    ValueName *self = firstArgument(node);
    const std::string first = self ? meant(self->name) : "";
    const bool changes = self && worksInPlace(node.op), moves = trains(node, norms);
    if (moves && mayHideMomentum(node))
      return unsupported(error(node)) << kUnknownMomentum;
    const std::string running[] = {nameIn(node, "running_mean"), nameIn(node, "running_var")};
    LogicalResult brought = success();
    for (NamedArgument &argument : node.arguments)
      forEachName(argument.value, [&](std::string &name) {
        if (succeeded(brought))
          brought = bring(name);
      });
    if (failed(brought))
      return failure();
    if (moves)
      moveStatistics(node, running);
    if (changes && !node.results.empty() && node.results[0].empty())
      node.results[0] = fresh(first);
    made.push_back(std::move(node));
    const AtenNode &done = made.back();
    if (changes)
      return change(done, first);
    if (moves)
      return putStatistics(AtenNode(done), running);
    addViews(given);
    return success();
  }

  Base &baseNamed(const std::string &name) {
    Base &base = bases[name];
    if (base.family.empty())
      base.family.push_back(name);
    return base;
  }

  void addViews(const AtenNode &node) {
    for (auto [i, result] : llvm::enumerate(node.results)) {
      const ValueName *shared = sharedBy(node, i);
      if (result.empty() || !shared)
        continue;
      const std::string of = meant(shared->name), base = baseOfValue(of);
      Base &known = baseNamed(base);
      views[result] = {of, node, i};
      baseNames[result] = base;
      currents[result] = {result, known.changes};
      known.family.push_back(result);
    }
  }

  /// The name becomes that of the value as it is now. A view of what was changed since is taken
  /// again.
  LogicalResult bring(std::string &name) {
    const std::string value = meant(name);
    std::vector<std::string> stale;
    for (std::string each = value; !isCurrent(each); each = views.at(each).of) {
      stale.push_back(each);
      if (!views.contains(each))
        break;
    }
    for (const std::string &each : llvm::reverse(stale))
      if (views.contains(each) && failed(takeAgain(each)))
        return failure();
    name = current(name);
    return success();
  }

  /// Given {}, PyTorch takes views for new tensors whose operators it leaves as they are.
  std::string advice() const {
    const bool hasHidden = llvm::any_of(views, [](const auto &view) {
      return llvm::is_contained({"broadcast_tensors", "meshgrid"}, baseOf(view.second.node.op));
    });
    return std::string("save torch.export.export(...).run_decompositions(") +
           (hasHidden ? ")" : "{})");
  }

  LogicalResult takeAgain(const std::string &name) {
    const View &view = views.at(name);
    const Base &base = bases.at(baseOfValue(name));
    if (sharingOf(view.node.op) != Sharing::Always)
      return error(base.last) << "changes " << baseOfValue(name) << " in place while " << name
                              << ", which may share its elements, is read later; " << advice();
    AtenNode node = view.node;
    for (NamedArgument &argument : node.arguments)
      forEachName(argument.value, [&](std::string &each) { each = current(each); });
    for (std::string &result : node.results)
      result = fresh(result);
    currents[name] = {node.results[view.result], base.changes};
    if (failed(charge(node, 1)))
      return failure();
    made.push_back(std::move(node));
    return success();
  }

  std::string fresh(const std::string &name) { return name + "'" + std::to_string(++count); }

  static std::string nameIn(const AtenNode &node, StringRef argument) {
    const Argument *given = node.argument(argument);
    const ValueName *value = given ? given->as<ValueName>() : nullptr;
    return value ? value->name : "";
  }

  void moveStatistics(AtenNode &node, ArrayRef<std::string> running) {
    node.op = "aten._native_batch_norm_legit_functional.default";
    node.results.resize(1);
    node.results.resize(3); // behind it the batch's statistics, which nobody reads
    for (const std::string &name : running)
      node.results.push_back(name.empty() ? "" : node.results[0] + " of " + name);
  }
  /// Whoever reads the running statistics later means the new ones.
  LogicalResult putStatistics(const AtenNode &node, ArrayRef<std::string> running) {
    for (auto [i, name] : llvm::enumerate(running))
      if (!name.empty() && failed(write(node, meant(name), node.results[3 + i])))
        return failure();
    return success();
  }

  /// The node, the last one made, changes a value: whoever reads that later means its result.
  LogicalResult change(const AtenNode &node, const std::string &name) {
    const std::string base = baseOfValue(name);
    if (owned.contains(base))
      return error(node) << "changes an input or a weight in place: " << base;
    if (node.results.empty())
      return error(node) << "has no result";
    const std::string result = node.results[0];
    same[result] = name;
    baseNamed(base).family.push_back(result);
    return write(AtenNode(node), name, result);
  }

  /// A value is `result` from here on, and so is that part of what it is a view of.
  LogicalResult write(const AtenNode &node, std::string name, std::string result) {
    std::vector<std::pair<std::string, std::string>> changed = {{name, result}};
    while (views.contains(name)) {
      auto others = isSharedLater(node, name);
      if (failed(others))
        return failure();
      if (!*others) {
        becomeBase(name);
        break;
      }
      const View &view = views.at(name);
      std::string whole = view.of;
      if (failed(bring(whole)))
        return failure();
      std::optional<AtenNode> back = putBack(view, whole, result);
      if (!back)
        return error(node) << "changes a part of " << view.of << " in place; " << advice();
      result = fresh(view.of);
      back->name = node.name;
      back->source = node.source;
      back->tracksGradients = node.tracksGradients;
      back->results = {result};
      if (failed(charge(node, 1)))
        return failure();
      made.push_back(std::move(*back));
      name = view.of;
      changed.emplace_back(name, result);
    }
    Base &base = baseNamed(name);
    base.last = node;
    base.last.arguments.clear();
    ++base.changes;
    for (const auto &[value, as] : changed)
      currents[value] = {as, base.changes};
    if (buffers.contains(name))
      graph.bufferChanges[name] = result;
    return success();
  }

  bool isPartOf(const std::string &name, const std::string &whole) {
    const std::string *value = &meant(name);
    for (; *value != whole; ++looks) {
      auto view = views.find(*value);
      if (view == views.end())
        return false;
      value = &view->second.of;
    }
    return true;
  }

  /// Whether anything else than a value and its parts is read later that shares its elements.
  FailureOr<bool> isSharedLater(const AtenNode &node, const std::string &name) {
    const std::string &base = baseOfValue(name);
    if (buffers.contains(base))
      return true;
    for (const std::string &other : bases.at(base).family) {
      if (++looks > kMostLooks)
        return LogicalResult(error(node) << "changes tensors that have too many views");
      if (isReadLater(other) && !isPartOf(other, name))
        return true;
    }
    return false;
  }
  bool isReadLater(const std::string &name) const {
    auto found = lastRead.find(name);
    return found != lastRead.end() && found->second > now;
  }

  /// The value and its parts share their elements with nothing else any more.
  void becomeBase(const std::string &name) {
    const std::string old = baseOfValue(name);
    Base &own = bases[name];
    own.changes = bases.at(old).changes;
    for (const std::string &other : bases.at(old).family)
      if (isPartOf(other, name)) {
        own.family.push_back(other);
        baseNames[other] = name;
      }
    baseNames.erase(name);
    views.erase(name);
  }

  /// At views of what is changed: seconds, and far more than models need.
  static constexpr int64_t kMostLooks = int64_t(1) << 23;

  AtenGraph &graph;
  BatchNormMode norms;
  Location file;
  Budget &budget;
  llvm::StringSet<> owned, buffers; ///< inputs and weights; what may be replaced
  std::map<std::string, size_t> lastRead;
  size_t now = 0;             ///< the node of the program
  std::vector<AtenNode> made; ///< those of the result
  std::map<std::string, std::string> same, baseNames;
  std::map<std::string, View> views;
  std::map<std::string, Current> currents;
  std::map<std::string, Base> bases;
  int64_t count = 0, looks = 0;
};
} // namespace

LogicalResult makeFunctional(AtenGraph &graph, BatchNormMode norms, Location file, Budget &budget) {
  const bool any = llvm::any_of(graph.nodes, [&](const AtenNode &node) {
    return worksInPlace(node.op) || trains(node, norms);
  });
  return any ? Renamer(graph, norms, file, budget).run() : success();
}

} // namespace dtc::import
