#include "Schema.h"

#include "Complex.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using nlohmann::json;

namespace dtc::import {

namespace {

/// Reads parts of the schema. The first thing that is missing or of another kind is remembered;
/// what is read after that is empty.
class Reader {
public:
  Reader(MLIRContext *context, std::string &why) : context(context), why(why) {}

  bool isGood() const { return why.empty(); }
  void fail(const std::string &text) {
    if (why.empty())
      why = text;
  }

  const json &field(const json &object, const char *name) {
    static const json none;
    if (object.is_object())
      if (auto found = object.find(name); found != object.end())
        return *found;
    fail(std::string("lacks the field ") + name);
    return none;
  }
  const json &list(const json &object, const char *name) {
    static const json none = json::array();
    const json &found = field(object, name);
    if (found.is_array())
      return found;
    fail(std::string("has no list in the field ") + name);
    return none;
  }
  std::string text(const json &value, const char *what) {
    if (value.is_string())
      return value.get<std::string>();
    fail(std::string("has no text as ") + what);
    return {};
  }
  int64_t integer(const json &value, const char *what) {
    if (value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t(INT64_MAX)))
      return value.get<int64_t>();
    fail(std::string("has no integer as ") + what);
    return 0;
  }
  /// The one entry of a union: its name and value.
  std::pair<std::string, const json &> only(const json &value, const char *what) {
    static const json none;
    if (value.is_object() && value.size() == 1)
      return {value.begin().key(), value.begin().value()};
    fail(std::string("has no ") + what);
    return {"", none};
  }

  std::string nameOf(const json &tensor) { return text(field(tensor, "name"), "a name"); }
  FileDim dim(const json &value);
  TensorMeta meta(const json &value);
  Argument argument(const std::string &kind, const json &value);
  Argument argument(const json &value) {
    auto [kind, inner] = only(value, "argument");
    return argument(kind, inner);
  }

private:
  Argument numberOrName(const json &value);
  template <typename Each> Argument listOf(const json &value, Each each) {
    ArgumentList result;
    if (!value.is_array())
      fail("has no list as an argument");
    else
      for (const json &item : value)
        result.push_back(each(item));
    return {result};
  }

  MLIRContext *context;
  std::string &why;
};

} // namespace

FileDim Reader::dim(const json &value) {
  auto [kind, inner] = only(value, "size");
  if (kind == "as_int")
    return {integer(inner, "a size"), ""};
  if (kind == "as_expr")
    return {std::nullopt, text(field(inner, "expr_str"), "a size")};
  fail("has a size of an unknown kind: " + kind);
  return {};
}

TensorMeta Reader::meta(const json &value) {
  TensorMeta result;
  const ScalarType type{integer(field(value, "dtype"), "a dtype")};
  const auto part = partType(type);
  result.isComplex = part.has_value();
  result.element = elementType(context, part.value_or(type));
  for (const json &size : list(value, "sizes"))
    result.dims.push_back(dim(size));
  for (const json &stride : list(value, "strides"))
    result.strides.push_back(dim(stride).size.value_or(-1));
  if (llvm::is_contained(result.strides, -1))
    result.strides.clear();
  result.offset = dim(field(value, "storage_offset")).size.value_or(-1);
  const json &grad = field(value, "requires_grad");
  result.requiresGrad = grad.is_boolean() && grad.get<bool>();
  return result;
}

Argument Reader::numberOrName(const json &value) {
  auto [kind, inner] = only(value, "number");
  if (kind == "as_name")
    return {ValueName{text(inner, "a name")}};
  return argument(kind, inner);
}

Argument Reader::argument(const std::string &kind, const json &value) {
  auto tensor = [&](const json &item) { return Argument{ValueName{nameOf(item)}}; };
  auto optional = [&](const json &item) {
    auto [which, inner] = only(item, "tensor");
    return which == "as_none" ? Argument{} : tensor(inner);
  };
  auto number = [&](const json &item) { return Argument{integer(item, "a number")}; };
  auto real = [&](const json &item) {
    if (item.is_number())
      return Argument{item.get<double>()};
    const std::string name = text(item, "a number"); // JSON has no infinity
    if (name == "Infinity" || name == "-Infinity" || name == "NaN")
      return Argument{name == "NaN"        ? std::numeric_limits<double>::quiet_NaN()
                      : name == "Infinity" ? std::numeric_limits<double>::infinity()
                                           : -std::numeric_limits<double>::infinity()};
    fail("has no number as an argument");
    return Argument{};
  };
  auto truth = [&](const json &item) {
    if (!item.is_boolean())
      fail("has no truth as an argument");
    return Argument{item.is_boolean() && item.get<bool>()};
  };
  if (kind == "as_none")
    return {};
  if (kind == "as_tensor")
    return tensor(value);
  if (kind == "as_tensors")
    return listOf(value, tensor);
  if (kind == "as_optional_tensor")
    return optional(value);
  if (kind == "as_optional_tensors")
    return listOf(value, optional);
  if (kind == "as_int")
    return number(value);
  if (kind == "as_ints")
    return listOf(value, number);
  if (kind == "as_float")
    return real(value);
  if (kind == "as_floats")
    return listOf(value, real);
  if (kind == "as_bool")
    return truth(value);
  if (kind == "as_bools")
    return listOf(value, truth);
  if (kind == "as_string")
    return {text(value, "a text")};
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
    return numberOrName(value);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools")
    return listOf(value, [&](const json &item) { return numberOrName(item); });
  if (kind == "as_scalar_type")
    return {ScalarType{integer(value, "a dtype")}};
  return {Ignored{}}; // devices, layouts, memory formats; what else is one no converter reads
}

/// "model.py:12", of the innermost frame that isn't PyTorch's own.
static std::string sourceOf(StringRef trace) {
  std::string found;
  SmallVector<StringRef> lines;
  trace.split(lines, '\n');
  for (StringRef line : lines) {
    line = line.trim();
    if (!line.consume_front("File \""))
      continue;
    auto [path, rest] = line.split("\", line ");
    const std::string place =
        (path.rsplit('/').second.empty() ? path : path.rsplit('/').second).str() + ":" +
        rest.take_while(llvm::isDigit).str();
    if (found.empty() || !path.contains("/torch/"))
      found = place;
  }
  return found;
}

namespace {

/// Nodes of a graph and of the graphs within it, in order.
class Nodes {
public:
  Nodes(Reader &reader, Budget &budget, std::vector<AtenNode> &into)
      : reader(reader), budget(budget), into(into) {}

  void add(const json &graph, const std::string &prefix);

private:
  void addNode(const json &node, const std::string &prefix);
  void inlineRegion(const json &node, AtenNode &made, const std::string &prefix);
  void forEachResult(const json &node, llvm::function_ref<void(const std::string &)> visit);
  void addAlias(const std::string &op, const std::string &from, const std::string &to,
                const AtenNode &like);
  void qualify(Argument &argument, const std::string &prefix);
  void charge() {
    if (StringRef error = budget.takeNodes(1); !error.empty())
      reader.fail(error.str());
  }

  Reader &reader;
  Budget &budget;
  std::vector<AtenNode> &into;
};

} // namespace

/// Names within an inlined region are its own.
void Nodes::qualify(Argument &argument, const std::string &prefix) {
  if (auto *value = std::get_if<ValueName>(&argument.value))
    value->name = prefix + value->name;
  if (auto *list = std::get_if<ArgumentList>(&argument.value))
    for (Argument &each : *list)
      qualify(each, prefix);
}

void Nodes::forEachResult(const json &node, llvm::function_ref<void(const std::string &)> visit) {
  for (const json &output : reader.list(node, "outputs")) {
    Argument result = reader.argument(output);
    if (const auto *list = result.as<ArgumentList>())
      for (const Argument &each : *list)
        visit(each.as<ValueName>() ? each.as<ValueName>()->name : "");
    else
      visit(result.as<ValueName>() ? result.as<ValueName>()->name : "");
  }
}

void Nodes::addAlias(const std::string &op, const std::string &from, const std::string &to,
                     const AtenNode &like) {
  charge();
  AtenNode alias;
  alias.op = op;
  alias.name = like.name;
  alias.source = like.source;
  alias.arguments.push_back({"self", {ValueName{from}}});
  alias.results.push_back(to);
  into.push_back(std::move(alias));
}

/// Regions without gradients and without autocast: their nodes stand where the region did. Values
/// that leave a region without gradients are detached.
void Nodes::inlineRegion(const json &node, AtenNode &made, const std::string &prefix) {
  const json &inputs = reader.list(node, "inputs");
  const json *region = nullptr;
  std::vector<std::string> operands;
  std::vector<bool> truths;
  for (const json &input : inputs) {
    auto [kind, value] = reader.only(reader.field(input, "arg"), "argument");
    if (kind == "as_graph") {
      region = &reader.field(value, "graph");
    } else if (!region) {
      if (value.is_boolean())
        truths.push_back(value.get<bool>());
    } else {
      Argument operand = reader.argument(kind, value);
      operands.push_back(operand.as<ValueName>() ? prefix + operand.as<ValueName>()->name : "");
    }
  }
  const bool autocast = StringRef(made.op).ends_with("autocast");
  if (!region || truths.empty() || (autocast && truths.front()))
    return reader.fail("has a region that is not supported: " + made.op +
                       (made.source.empty() ? "" : " (" + made.source + ")"));
  const std::string inner = prefix + made.name + ".";
  const json &parameters = reader.list(*region, "inputs");
  if (parameters.size() != operands.size())
    return reader.fail("gives a region other arguments than it takes: " + made.name);
  for (auto [i, parameter] : llvm::enumerate(parameters)) {
    Argument name = reader.argument(parameter);
    if (const ValueName *value = name.as<ValueName>())
      addAlias("aten.alias.default", operands[i], inner + value->name, made);
  }
  add(*region, inner);
  std::vector<std::string> results;
  forEachResult(node, [&](const std::string &name) { results.push_back(prefix + name); });
  const json &outputs = reader.list(*region, "outputs");
  if (outputs.size() != results.size())
    return reader.fail("takes other results of a region than it gives: " + made.name);
  const bool detaches = !autocast && !truths.front();
  for (auto [i, output] : llvm::enumerate(outputs)) {
    Argument name = reader.argument(output);
    if (const ValueName *value = name.as<ValueName>())
      addAlias(detaches ? "aten.detach.default" : "aten.alias.default", inner + value->name,
               results[i], made);
  }
}

void Nodes::addNode(const json &node, const std::string &prefix) {
  AtenNode made;
  const std::string target = reader.text(reader.field(node, "target"), "an operator");
  StringRef op = target;
  op.consume_front("torch.ops.");
  made.op = op.str();
  if (node.is_object()) {
    if (auto name = node.find("name"); name != node.end() && name->is_string())
      made.name = name->get<std::string>();
    if (auto data = node.find("metadata"); data != node.end() && data->is_object())
      if (auto trace = data->find("stack_trace"); trace != data->end() && trace->is_string())
        made.source = sourceOf(trace->get_ref<const std::string &>());
  }
  if (op.starts_with("higher_order.wrap_with_set_grad_enabled") ||
      op.starts_with("higher_order.wrap_with_autocast"))
    return inlineRegion(node, made, prefix);
  charge();
  for (const json &input : reader.list(node, "inputs")) {
    NamedArgument argument;
    argument.name = reader.text(reader.field(input, "name"), "an argument's name");
    argument.value = reader.argument(reader.field(input, "arg"));
    qualify(argument.value, prefix);
    made.arguments.push_back(std::move(argument));
  }
  forEachResult(node, [&](const std::string &name) {
    made.results.push_back(name.empty() ? "" : prefix + name);
  });
  into.push_back(std::move(made));
}

void Nodes::add(const json &graph, const std::string &prefix) {
  for (const json &node : reader.list(graph, "nodes")) {
    if (!reader.isGood())
      return;
    addNode(node, prefix);
  }
}

/// The value that replaces a buffer.
static void readMutation(Reader &reader, const json &value, Program &program) {
  const std::string buffer = reader.text(reader.field(value, "buffer_name"), "a name");
  for (const NamedTensor &tensor : program.tensors)
    if (tensor.name == buffer) {
      program.graph.bufferChanges[tensor.value] = reader.nameOf(reader.field(value, "arg"));
      return;
    }
  reader.fail("changes a buffer that it doesn't have: " + buffer);
}

/// A result is an output of the program, or replaces a buffer; what changes inputs is refused.
static void readOutputs(Reader &reader, const json &signature, Program &program) {
  AtenGraph &graph = program.graph;
  for (const json &spec : reader.list(signature, "output_specs")) {
    auto [kind, value] = reader.only(spec, "output");
    if (kind == "buffer_mutation") {
      readMutation(reader, value, program);
      continue;
    }
    if (kind == "parameter_mutation")
      return reader.fail(
          "changes a parameter while it runs, as a table with max_norm does, which is "
          "not supported: " +
          reader.text(reader.field(value, "parameter_name"), "a name"));
    if (kind != "user_output" && kind != "loss_output")
      return reader.fail("has an output of a kind that is not supported: " + kind);
    const json &argument = reader.field(value, "arg");
    Argument output = kind == "user_output" ? reader.argument(argument)
                                            : Argument{ValueName{reader.nameOf(argument)}};
    if (output.isNone())
      continue;
    if (!output.as<ValueName>())
      return reader.fail("has an output that is not a tensor");
    graph.outputs.push_back(output.as<ValueName>()->name);
  }
}

static void readInput(Reader &reader, const json &spec, const json &metas, Program &program) {
  auto [kind, value] = reader.only(spec, "input");
  if (kind == "constant_input")
    return; // a number that the program was specialized to
  const json &argument = reader.field(value, "arg");
  if (kind == "user_input") {
    auto [type, inner] = reader.only(argument, "input");
    if (type == "as_tensor") {
      FileInput input;
      input.name = reader.nameOf(inner);
      TensorMeta meta = reader.meta(reader.field(metas, input.name.c_str()));
      if (meta.isComplex)
        reader.fail("has an input of complex numbers: " + input.name);
      input.element = meta.element;
      input.dims = meta.dims;
      program.graph.inputs.push_back(std::move(input));
    } else if (type == "as_sym_int" || type == "as_sym_float") {
      reader.fail("has an input that is not a tensor, but a number left open");
    }
    return;
  }
  const char *names = kind == "parameter"         ? "parameter_name"
                      : kind == "buffer"          ? "buffer_name"
                      : kind == "tensor_constant" ? "tensor_constant_name"
                                                  : nullptr;
  if (!names)
    return reader.fail("has an input of a kind that is not supported: " + kind);
  const TensorKind tensor = kind == "parameter" ? TensorKind::Parameter
                            : kind == "buffer"  ? TensorKind::Buffer
                                                : TensorKind::Constant;
  program.tensors.push_back(
      {reader.nameOf(argument), reader.text(reader.field(value, names), "a name"), tensor});
}

std::optional<Program> parseProgram(std::string_view text, MLIRContext *context, Budget &budget,
                                    std::string &why) {
  auto root = io::parseJson<json>(text, why);
  if (!root)
    return std::nullopt;
  Reader reader(context, why);
  const int64_t major =
      reader.integer(reader.field(reader.field(*root, "schema_version"), "major"), "a version");
  if (reader.isGood() && major != 8)
    reader.fail("has version " + std::to_string(major) +
                " of PyTorch's schema; version 8 is supported, of PyTorch 2.6 and later");
  Program program;
  const json &module = reader.field(*root, "graph_module");
  const json &graph = reader.field(module, "graph");
  const json &signature = reader.field(module, "signature");
  for (const json &spec : reader.list(signature, "input_specs"))
    readInput(reader, spec, reader.field(graph, "tensor_values"), program);
  readOutputs(reader, signature, program);
  if (reader.isGood())
    Nodes(reader, budget, program.graph.nodes).add(graph, "");
  if (reader.isGood() && program.graph.outputs.empty())
    reader.fail("has no outputs");
  if (!reader.isGood())
    return std::nullopt;
  return program;
}

std::optional<Ties> parseTies(std::string_view text, std::string &why) {
  auto root = io::parseJson<json>(text, why);
  if (!root)
    return std::nullopt;
  try {
    return root->get<Ties>();
  } catch (const json::exception &) {
    why = "is no list of lists of names";
    return std::nullopt;
  }
}

/// The elements of a small constant, as hexadecimal digits.
static std::shared_ptr<const std::vector<char>> bytesOf(Reader &reader, const json &value) {
  const std::string digits = reader.text(value, "bytes");
  std::string bytes;
  if (!llvm::tryGetFromHex(digits, bytes))
    reader.fail("has bytes that are no hexadecimal digits");
  return std::make_shared<const std::vector<char>>(bytes.begin(), bytes.end());
}

std::optional<Payloads> parsePayloads(std::string_view text, MLIRContext *context,
                                      std::string &why) {
  auto root = io::parseJson<json>(text, why);
  if (!root)
    return std::nullopt;
  Reader reader(context, why);
  Payloads result;
  const json &config = reader.field(*root, "config");
  if (!config.is_object())
    reader.fail("has no tensors");
  else
    for (const auto &[name, entry] : config.items()) {
      Payload payload;
      if (entry.is_object() && entry.contains("bytes"))
        payload.bytes = bytesOf(reader, entry["bytes"]);
      else
        payload.member = reader.text(reader.field(entry, "path_name"), "a file's name");
      const json &pickled = reader.field(entry, "use_pickle");
      payload.pickled = !pickled.is_boolean() || pickled.get<bool>();
      if (!payload.pickled)
        payload.meta = reader.meta(reader.field(entry, "tensor_meta"));
      result[name] = std::move(payload);
    }
  if (!reader.isGood())
    return std::nullopt;
  return result;
}

} // namespace dtc::import
