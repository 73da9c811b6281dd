#include "Complex.h"

#include "AtenConverter.h"
#include "InPlace.h"
#include "Views.h"

#include "dtc/Import/Build/UnsupportedOperators.h"
#include "dtc/Import/Unsupported.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dtc::import {

std::optional<ScalarType> partType(ScalarType type) {
  constexpr int64_t kComplexHalf = 9, kComplexDouble = 11, kBeyondPart = 3;
  if (type.number < kComplexHalf || type.number > kComplexDouble)
    return std::nullopt;
  return ScalarType{type.number - kBeyondPart};
}

namespace {

/// The names of two real values.
struct Parts {
  std::string real, imaginary;
};

class Separator {
public:
  explicit Separator(AtenGraph &graph) : graph(graph) {}

  LogicalResult run(Location file);

private:
  void separateStored();
  /// Nothing where the node is not supported on complex numbers.
  bool separate(const AtenNode &node);
  bool separateProduct(const AtenNode &node);
  bool separateConversion(const AtenNode &node);
  bool doToBoth(const AtenNode &node);
  void join(const AtenNode &node);

  const Parts *partsOf(const AtenNode &node, StringRef argument) const;
  bool readsComplex(const AtenNode &node) const;
  bool makesComplex(const AtenNode &node) const;
  /// The argument with one part of each complex value in it; `real` says which.
  Argument partOf(const Argument &argument, bool real) const;

  /// Adds an operator in the place of `node` and returns its result.
  std::string add(const AtenNode &node, StringRef op, std::vector<NamedArgument> arguments,
                  std::string result = "");
  std::string add(const AtenNode &node, StringRef op, Argument self, Argument other) {
    return add(node, op, {{"self", std::move(self)}, {"other", std::move(other)}});
  }
  void define(const AtenNode &node, std::string real, std::string imaginary) {
    if (!node.results.empty())
      parts[node.results.front()] = {std::move(real), std::move(imaginary)};
  }

  AtenGraph &graph;
  std::vector<AtenNode> nodes; ///< those of the result
  std::map<std::string, Parts> parts;
  int64_t numAdded = 0;
};

} // namespace

static Argument valueOf(std::string name) { return {ValueName{std::move(name)}}; }

/// Linear operators that treat all elements alike, whatever they are.
static bool actsOnPartsAlone(StringRef op) {
  static const llvm::StringSet<> bases = {"alias",        "cat",
                                          "chunk",        "clone",
                                          "concat",       "contiguous",
                                          "detach",       "expand",
                                          "expand_as",    "flatten",
                                          "flip",         "index",
                                          "index_select", "lift_fresh_copy",
                                          "mean",         "movedim",
                                          "narrow",       "neg",
                                          "permute",      "repeat",
                                          "reshape",      "roll",
                                          "select",       "slice",
                                          "split",        "split_with_sizes",
                                          "squeeze",      "stack",
                                          "sum",          "t",
                                          "transpose",    "unbind",
                                          "unflatten",    "unsqueeze",
                                          "view",         "view_as"};
  return bases.contains(baseOf(op));
}

const Parts *Separator::partsOf(const AtenNode &node, StringRef name) const {
  const Argument *argument = node.argument(name);
  const ValueName *value = argument ? argument->as<ValueName>() : nullptr;
  auto found = value ? parts.find(value->name) : parts.end();
  return found == parts.end() ? nullptr : &found->second;
}

bool Separator::readsComplex(const AtenNode &node) const {
  auto isComplex = [&](const Argument &argument) {
    const ValueName *value = argument.as<ValueName>();
    return value && parts.contains(value->name);
  };
  return llvm::any_of(node.arguments, [&](const NamedArgument &argument) {
    const ArgumentList *list = argument.value.as<ArgumentList>();
    return isComplex(argument.value) || (list && llvm::any_of(*list, isComplex));
  });
}

/// Of real ones.
bool Separator::makesComplex(const AtenNode &node) const {
  const Argument *type = node.argument("dtype");
  const ScalarType *number = type ? type->as<ScalarType>() : nullptr;
  return llvm::is_contained({"view_as_complex", "polar", "complex"}, baseOf(node.op)) ||
         (number && partType(*number));
}

Argument Separator::partOf(const Argument &argument, bool real) const {
  if (const ValueName *value = argument.as<ValueName>())
    if (auto found = parts.find(value->name); found != parts.end())
      return valueOf(real ? found->second.real : found->second.imaginary);
  const ArgumentList *list = argument.as<ArgumentList>();
  if (!list)
    return argument;
  ArgumentList each;
  for (const Argument &element : *list)
    each.push_back(partOf(element, real));
  return {std::move(each)};
}

std::string Separator::add(const AtenNode &node, StringRef op, std::vector<NamedArgument> arguments,
                           std::string result) {
  AtenNode added = node;
  added.op = op.str();
  added.arguments = std::move(arguments);
  // No name of Python's has a dot.
  if (result.empty())
    result = node.name + "." + std::to_string(numAdded++);
  added.results = {result};
  nodes.push_back(std::move(added));
  return result;
}

/// (a + bi)(c + di). A real operand has no imaginary part.
bool Separator::separateProduct(const AtenNode &node) {
  const Argument *self = node.argument("self"), *other = node.argument("other");
  if (!self || !other)
    return false;
  const Parts *a = partsOf(node, "self"), *b = partsOf(node, "other");
  auto times = [&](const std::string &x, const Argument &y) {
    return add(node, "aten.mul.Tensor", valueOf(x), y);
  };
  if (!a || !b) {
    const Parts &complex = a ? *a : *b;
    const Argument &real = a ? *other : *self;
    define(node, times(complex.real, real), times(complex.imaginary, real));
    return true;
  }
  auto product = [&](const std::string &x, const std::string &y) {
    return valueOf(times(x, valueOf(y)));
  };
  define(
      node,
      add(node, "aten.sub.Tensor", product(a->real, b->real), product(a->imaginary, b->imaginary)),
      add(node, "aten.add.Tensor", product(a->real, b->imaginary), product(a->imaginary, b->real)));
  return true;
}

/// To another type: both parts change theirs. A real number has zeros beside it.
bool Separator::separateConversion(const AtenNode &node) {
  const Argument *self = node.argument("self"), *type = node.argument("dtype");
  const ScalarType *number = type ? type->as<ScalarType>() : nullptr;
  const auto part = number ? partType(*number) : std::nullopt;
  if (!self || (number && !part))
    return false;
  auto convert = [&](const Argument &value) {
    if (!part)
      return add(node, "aten.alias.default", {{"self", value}});
    return add(node, "aten.to.dtype", {{"self", value}, {"dtype", {*part}}});
  };
  const Parts *from = partsOf(node, "self");
  const std::string real = convert(partOf(*self, true));
  define(node, real,
         from ? convert(partOf(*self, false))
              : add(node, "aten.zeros_like.default", {{"self", valueOf(real)}}));
  return true;
}

/// The same operator on the real parts, and on the imaginary ones.
bool Separator::doToBoth(const AtenNode &node) {
  for (bool real : {true, false}) {
    AtenNode half = node;
    for (NamedArgument &argument : half.arguments)
      argument.value = partOf(argument.value, real);
    for (std::string &result : half.results)
      if (!result.empty())
        result += real ? ".real" : ".imaginary";
    nodes.push_back(std::move(half));
  }
  for (const std::string &result : node.results)
    parts[result] = {result + ".real", result + ".imaginary"};
  return true;
}

void Separator::join(const AtenNode &node) {
  const Parts &from = *partsOf(node, "self");
  ArgumentList both = {valueOf(from.real), valueOf(from.imaginary)};
  add(node, "aten.stack.default", {{"tensors", {std::move(both)}}, {"dim", {int64_t(-1)}}},
      node.results.front());
}

bool Separator::separate(const AtenNode &node) {
  const StringRef base = baseOf(node.op);
  auto given = [&](StringRef name) {
    const Argument *argument = node.argument(name);
    return argument ? *argument : Argument();
  };
  auto unary = [&](StringRef op, Argument self) {
    return add(node, op, {{"self", std::move(self)}});
  };
  auto select = [&](int64_t index) {
    return add(node, "aten.select.int",
               {{"self", given("self")}, {"dim", {int64_t(-1)}}, {"index", {index}}});
  };
  if (base == "view_as_complex") {
    define(node, select(0), select(1));
    return true;
  }
  if (base == "polar") {
    auto along = [&](StringRef wave) {
      return add(node, "aten.mul.Tensor", given("abs"), valueOf(unary(wave, given("angle"))));
    };
    define(node, along("aten.cos.default"), along("aten.sin.default"));
    return true;
  }
  if (base == "complex") {
    define(node, unary("aten.alias.default", given("real")),
           unary("aten.alias.default", given("imag")));
    return true;
  }
  if (base == "to" || base == "_to_copy")
    return separateConversion(node);
  if (base == "mul")
    return separateProduct(node);
  const Parts *self = partsOf(node, "self");
  const bool isOfTwo = self && partsOf(node, "other");
  if ((base == "div" && self && !isOfTwo) || ((base == "add" || base == "sub") && isOfTwo) ||
      (actsOnPartsAlone(node.op) && readsComplex(node)))
    return doToBoth(node);
  if (base == "view_as_real" && self) {
    join(node);
    return true;
  }
  if ((base == "real" || base == "imag") && self && !node.results.empty()) {
    add(node, "aten.alias.default",
        {{"self", valueOf(base == "real" ? self->real : self->imaginary)}}, node.results.front());
    return true;
  }
  if (llvm::is_contained({"conj", "_conj", "conj_physical", "_conj_physical"}, base) && self) {
    define(node, unary("aten.alias.default", valueOf(self->real)),
           unary("aten.neg.default", valueOf(self->imaginary)));
    return true;
  }
  return false;
}

/// The parts of stored tensors are taken apart where the program begins.
void Separator::separateStored() {
  for (const AtenTensor &each : graph.tensors) {
    if (!each.isComplex)
      continue;
    AtenNode read;
    read.op = "aten.view_as_complex.default";
    read.name = read.source = each.value;
    read.arguments = {{"self", valueOf(each.value)}};
    read.results = {each.value};
    separate(read);
  }
}

/// What is written into a view of joined parts would not be seen in them.
static LogicalResult checkWrites(const AtenGraph &graph, Location file) {
  const llvm::StringSet<> changed = changedValues(graph);
  for (const AtenNode &node : graph.nodes)
    if (baseOf(node.op) == "view_as_real")
      for (const std::string &result : node.results)
        if (changed.contains(result))
          return unsupported(emitError(file)) << "a view of complex numbers is changed in place, "
                                              << "which is not supported: " << node.source;
  return success();
}

LogicalResult Separator::run(Location file) {
  if (failed(checkWrites(graph, file)))
    return failure();
  const auto live = liveValues(graph);
  separateStored();
  std::vector<UnsupportedOperator> unknown;
  for (const AtenNode &node : graph.nodes) {
    const bool isComplex = readsComplex(node) || makesComplex(node);
    if (!isComplex) {
      nodes.push_back(node);
    } else if (!separate(node) &&
               llvm::any_of(node.results, [&](const auto &name) { return live.contains(name); })) {
      unknown.push_back(
          {node.op + " of complex numbers", node.source.empty() ? node.name : node.source});
    }
  }
  if (failed(refuse(file, unknown)))
    return failure();
  for (const std::string &output : graph.outputs)
    if (parts.contains(output))
      return unsupported(emitError(file)) << "the output " << output << " is complex, which is not "
                                          << "supported: return torch.view_as_real of it";
  graph.nodes = std::move(nodes);
  return success();
}

LogicalResult separateComplex(AtenGraph &graph, Location file) {
  return Separator(graph).run(file);
}

} // namespace dtc::import
