#include "Operators.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>

namespace dtc::torchscript {

using torch::jit::Node;
using torch::jit::Stack;

static std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

static void apply(const torch::jit::Operator &op, const Node &node, Stack &stack) {
  torch::jit::Operation operation = op.getOperation(&node);
  operation(stack);
}

static bool isOneOf(const std::string &name, std::initializer_list<const char *> names) {
  return std::any_of(names.begin(), names.end(), [&](const char *each) { return name == each; });
}

static std::vector<at::Tensor> tensorsOf(const Stack &stack) {
  std::vector<at::Tensor> result;
  for (const c10::IValue &value : stack)
    forEachTensor(value, [&](const at::Tensor &tensor) { result.push_back(tensor); });
  return result;
}

[[noreturn]] static void refuseData() {
  throw Refusal("depends on data: a number, a size or a condition is computed from elements of a "
                "tensor that the model computes from its inputs or weights");
}

/// Operators of TorchScript alone that look at elements.
static bool readsElements(const std::string &name) {
  return isOneOf(name, {"aten::Int", "aten::Float", "aten::Bool", "aten::Complex",
                        "aten::ScalarImplicit", "aten::IntImplicit", "aten::FloatImplicit",
                        "prim::tolist", "aten::tensor", "aten::as_tensor", "aten::eq", "aten::ne",
                        "aten::index", "aten::count", "aten::__contains__"});
}

/// The inputs with the elements of their tensors; nothing where one isn't known.
static std::optional<Stack> knownInputs(const Values &values, const Stack &stack) {
  for (const at::Tensor &tensor : tensorsOf(stack))
    if (!values.isKnown(tensor))
      return std::nullopt;
  Stack result;
  for (const c10::IValue &value : stack) {
    const bool any = !tensorsOf({value}).empty();
    result.push_back(any ? mapTensors(value, [&](const at::Tensor &t) { return values.known(t); })
                         : value);
  }
  return result;
}

/// Tensors are made without data, or with it, wherever the module would have them.
static void setDevice(const c10::FunctionSchema &schema, Stack &stack, c10::Device device) {
  const bool makesTensors = tensorsOf(stack).empty();
  for (size_t i = 0; i < stack.size(); ++i) {
    const c10::Argument &argument = schema.arguments()[i];
    if (stack[i].isDevice() || (makesTensors && argument.name() == "device"))
      stack[i] = device;
    if (argument.name() == "pin_memory")
      stack[i] = c10::IValue();
  }
}

/// A number that tracing made a tensor is a number again, where that is another operator.
static const torch::jit::Operator *withNumbers(const torch::jit::Operator *op, Values &values,
                                               Stack &stack) {
  if (op->schema().name() != "aten::repeat_interleave" ||
      op->schema().overload_name() != "self_Tensor")
    return op;
  const at::Tensor repeats = values.known(stack[1].toTensor());
  if (!repeats.defined() || repeats.numel() != 1)
    refuseData();
  stack[1] = repeats.item<int64_t>();
  return torch::jit::findOperatorFor({"aten::repeat_interleave", "self_int"}).get();
}

void Operators::run(const Node &node, Stack &stack, const std::string &source) {
  const torch::jit::Operator *op = node.maybeOperator();
  if (!op)
    throw Refusal("is not supported");
  op = withNumbers(op, values, stack);
  const c10::FunctionSchema &schema = op->schema();
  const bool givesTensors =
      std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument &each) {
        return each.type()->kind() == c10::TypeKind::TensorType ||
               each.type()->isSubtypeOf(*c10::ListType::ofTensors());
      });
  const bool isTorch = op->isC10Op() && schema.name().rfind("aten::", 0) == 0;
  if (isTorch && givesTensors)
    runOnTensors(*op, node, stack, source);
  else
    runOnHost(*op, node, stack);
}

/// Lists, numbers, texts; what is asked of tensors without a tensor as an answer.
void Operators::runOnHost(const torch::jit::Operator &op, const Node &node, Stack &stack) {
  const std::string name = op.schema().name();
  const bool readsData = readsElements(name) || (op.isC10Op() && !tensorsOf(stack).empty());
  std::optional<Stack> known = readsData ? knownInputs(values, stack) : std::nullopt;
  if (readsData && !known && readsElements(name))
    refuseData();
  if (name == "prim::data" || name == "aten::data")
    throw Refusal("is not supported; use detach()");
  if (name == "aten::set_grad_enabled") {
    tracksGradients = stack.back().toBool();
    return torch::jit::drop(stack, 1);
  }
  if (name == "aten::is_grad_enabled")
    return stack.emplace_back(tracksGradients), void();
  if (known) {
    stack = *known;
    if (name == "aten::tensor" || name == "aten::as_tensor")
      for (c10::IValue &value : stack)
        value = value.isDevice() ? c10::IValue(c10::Device(at::kCPU)) : value;
  } else if (op.isC10Op() && stack.size() == op.schema().arguments().size())
    setDevice(op.schema(), stack, at::kMeta);
  try {
    apply(op, node, stack);
  } catch (const c10::NotImplementedError &) {
    refuseData();
  }
  for (c10::IValue &value : stack)
    value = values.adopt(value);
}

/// What LibTorch has no shape for is computed on zeros, and on ones: if the shapes differ they
/// depend on data.
static Stack runOnDrawn(const torch::jit::Operator &op, const Node &node, const Stack &inputs,
                        double fill) {
  int64_t elements = 0;
  Stack stack;
  for (const c10::IValue &value : inputs)
    stack.push_back(
        tensorsOf({value}).empty() ? value : mapTensors(value, [&](const at::Tensor &tensor) {
          elements += tensor.numel();
          TORCH_CHECK(elements < (1 << 24), "has no shape function");
          return at::full(tensor.sizes(), fill, tensor.options().device(at::kCPU));
        }));
  setDevice(op.schema(), stack, at::kCPU);
  apply(op, node, stack);
  return stack;
}

static bool readsData(const c10::FunctionSchema &schema, const std::string &error) {
  auto handle = c10::Dispatcher::singleton().findSchema({schema.name(), schema.overload_name()});
  if (handle && (handle->hasTag(at::Tag::dynamic_output_shape) ||
                 handle->hasTag(at::Tag::data_dependent_output)))
    return true;
  for (const char *reader : {"_local_scalar_dense", "aten::nonzero", "aten::masked_select",
                             "aten::equal", "aten::is_nonzero", "aten::item", "aten::_unique"})
    if (error.find(reader) != std::string::npos)
      return true;
  return false;
}

static void dropElements(Stack &stack) {
  for (c10::IValue &value : stack)
    value = mapTensors(value, [](const at::Tensor &tensor) {
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               tensor.options().device(at::kMeta));
    });
}

/// The results without data. `known`: the inputs with their elements.
static Stack shapesOf(const torch::jit::Operator &op, const Node &node, const Stack &inputs,
                      const std::optional<Stack> &known) {
  Stack stack = inputs;
  setDevice(op.schema(), stack, at::kMeta);
  std::string error;
  try {
    apply(op, node, stack);
    return stack;
  } catch (const c10::NotImplementedError &missing) {
    error = missing.what_without_backtrace();
  }
  for (const c10::Argument &argument : op.schema().arguments())
    if (argument.alias_info())
      throw Refusal(firstLine(error));
  if (readsData(op.schema(), error))
    refuseData();
  if (known) {
    stack = *known;
    setDevice(op.schema(), stack, at::kCPU);
    apply(op, node, stack);
    dropElements(stack);
    return stack;
  }
  Stack zeros = runOnDrawn(op, node, inputs, 0), ones = runOnDrawn(op, node, inputs, 1);
  const std::vector<at::Tensor> a = tensorsOf(zeros), b = tensorsOf(ones);
  for (size_t i = 0; i < a.size(); ++i)
    if (i >= b.size() || a[i].sizes() != b[i].sizes())
      refuseData();
  dropElements(zeros);
  return zeros;
}

/// Indices must be integers; an input whose type nobody gave becomes one.
void Operators::checkIndices(const Application &application) const {
  for (const auto &[argument, value] : application.arguments)
    if (argument.name() == "indices" || argument.name() == "index" ||
        application.target.rfind("aten.one_hot", 0) == 0)
      forEachTensor(value, [&](const at::Tensor &tensor) {
        const std::string &input = values.value(tensor).elements->untypedInput;
        if (!input.empty() && tensor.is_floating_point())
          throw NeedsIntegers{input};
      });
  if (application.target.rfind("aten.index", 0) != 0)
    return;
  for (const auto &[argument, value] : application.arguments)
    if (argument.name() == "indices")
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (tensor.scalar_type() == at::kBool && !values.isKnown(tensor) &&
            application.target.find("index_put") == std::string::npos)
          refuseData();
      });
}

static std::shared_ptr<Application> describe(const c10::FunctionSchema &schema, const Stack &stack,
                                             const Node &node, const std::string &source) {
  auto application = std::make_shared<Application>();
  std::string name = schema.name().substr(6);
  size_t count = stack.size();
  if (name == "_convolution") { // as tracing writes it
    name = "convolution";
    count = 9;
  }
  const std::string overload = schema.overload_name();
  application->target = "aten." + name + "." + (overload.empty() ? "default" : overload);
  if (name == "convolution")
    application->target = "aten.convolution.default";
  application->source = source;
  application->hint = name;
  if (!node.outputs().empty() && node.outputs()[0]->hasDebugName() &&
      node.outputs()[0]->debugName().find_first_not_of("0123456789.") != std::string::npos)
    application->hint = node.outputs()[0]->debugNameBase();
  for (size_t i = 0; i < count; ++i)
    application->arguments.emplace_back(schema.arguments()[i], stack[i]);
  application->isList =
      schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::ListType;
  return application;
}

/// The argument that the operator changes; nothing where there is none.
static std::optional<size_t> changedArgument(const c10::FunctionSchema &schema) {
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (const auto *alias = schema.arguments()[i].alias_info(); alias && alias->isWrite()) {
      if (schema.arguments()[i].is_out() || i != 0)
        throw Refusal("writes its result into an argument, which is not supported");
      return i;
    }
  return std::nullopt;
}

void Operators::runOnTensors(const torch::jit::Operator &op, const Node &node, Stack &stack,
                             const std::string &source) {
  const c10::FunctionSchema &schema = op.schema();
  auto application = describe(schema, stack, node, source);
  application->tracksGradients = tracksGradients;
  checkIndices(*application);
  const std::string name = schema.name();
  if (isOneOf(name, {"aten::cpu", "aten::cuda", "aten::requires_grad_", "aten::pin_memory"}))
    return stack.resize(1);
  const auto changed = changedArgument(schema);
  const Stack inputs = stack;
  std::optional<Stack> known = knownInputs(values, inputs);
  auto handle = c10::Dispatcher::singleton().findSchema({name, schema.overload_name()});
  if (handle && handle->hasTag(at::Tag::nondeterministic_seeded))
    known.reset();
  const bool masked = name == "aten::index_put_" && !known;
  try {
    if (!masked || !changed)
      stack = shapesOf(op, node, inputs, known);
    else
      stack = {inputs[0]};
  } catch (const Refusal &) {
    if (!known || changed)
      throw;
    stack = *known; // all of it is known, even what depends on data
    setDevice(schema, stack, at::kCPU);
    apply(op, node, stack);
    for (c10::IValue &value : stack)
      value = values.adopt(value);
    return;
  }
  if (changed && values.isReshaped(inputs[0].toTensor()))
    throw Refusal("changes the shape of a tensor in place, which is not supported");
  const std::vector<at::Tensor> results = tensorsOf(stack);
  const bool isSmall = std::all_of(results.begin(), results.end(), [](const at::Tensor &tensor) {
    return tensor.numel() <= kMostKnown;
  });
  std::vector<at::Tensor> elements;
  if (known && isSmall) {
    setDevice(schema, *known, at::kCPU);
    apply(op, node, *known);
    elements = tensorsOf(*known);
  }
  if (changed)
    change(application, inputs[0].toTensor(), stack, elements, results);
  else
    values.define(application, results, elements);
}

void Operators::change(const std::shared_ptr<Application> &application, const at::Tensor &self,
                       Stack &stack, const std::vector<at::Tensor> &known,
                       const std::vector<at::Tensor> &results) {
  std::string &target = application->target;
  const size_t mark = target.find("_.");
  if (mark == std::string::npos)
    throw Refusal("changes a tensor in place, which is not supported");
  target.erase(mark, 1);
  if (!application->hint.empty() && application->hint.back() == '_')
    application->hint.pop_back();
  values.assign(self, changedValue(*application, self), !known.empty(), *application);
}

static const at::Tensor &tensorAt(const Application &application, size_t i) {
  return application.arguments[i].second.toTensor();
}

/// Whether x[mask] = y writes where a single mask is true.
static bool isMasked(const Application &application) {
  const c10::List<c10::IValue> indices = application.arguments[1].second.toList();
  return indices.size() == 1 && indices.get(0).isTensor() &&
         indices.get(0).toTensor().scalar_type() == at::kBool;
}

/// x[mask] = number
std::string Operators::maskedValue(const Application &application, const at::Tensor &self) {
  const at::Tensor mask = application.arguments[1].second.toList().get(0).toTensor();
  const at::Tensor &written = tensorAt(application, 2);
  const c10::IValue &accumulates = application.arguments[3].second;
  if (written.numel() != 1 || mask.sizes() != self.sizes() ||
      written.scalar_type() != self.scalar_type() || accumulates.toBool())
    refuseData();
  auto tensor = [&](const char *name, const at::Tensor &of) {
    return named(name, tensorArgument(values.name(of)));
  };
  return values.emit(
      "aten.where.self",
      Json::array({tensor("condition", mask), tensor("self", written), tensor("other", self)}),
      application);
}

/// The operator that gives what the one in place writes.
std::string Operators::changedValue(const Application &application, const at::Tensor &self) {
  const Json type = {{"as_scalar_type", serializedType(self.scalar_type())}};
  auto tensor = [&](const char *name, const std::string &value) {
    return named(name, tensorArgument(value));
  };
  auto cast = [&](const std::string &value) {
    return values.emit("aten.to.dtype", Json::array({tensor("self", value), named("dtype", type)}),
                       application);
  };
  const std::string &target = application.target;
  if (target == "aten.copy.default") {
    const at::Tensor source = application.arguments[1].second.toTensor();
    std::string value = values.name(source);
    if (source.scalar_type() != self.scalar_type())
      value = cast(value);
    if (source.sizes() != self.sizes())
      value = values.emit(
          "aten.expand.default",
          Json::array({tensor("self", value), named("size", intsArgument(self.sizes().vec()))}),
          application);
    return value;
  }
  if (target == "aten.zero.default")
    return values.emit("aten.zeros_like.default", Json::array({tensor("self", values.name(self))}),
                       application);
  if (target == "aten.index_put.default" && isMasked(application))
    return maskedValue(application, self);
  if (target.rfind("aten.fill.", 0) == 0) {
    Application full = application;
    full.target = "aten.full_like.default";
    if (!application.arguments[1].second.isScalar())
      throw Refusal("fills a tensor with one that is computed, which is not supported");
    full.arguments[1].first = c10::Argument("fill_value", full.arguments[1].first.type());
    return values.emit(full).front();
  }
  const std::string op = target.substr(0, target.rfind('.'));
  bool isMixed =
      isOneOf(op, {"aten.eq", "aten.ne", "aten.lt", "aten.le", "aten.gt", "aten.ge",
                   "aten.logical_not", "aten.logical_and", "aten.logical_or", "aten.logical_xor"});
  for (const auto &[argument, value] : application.arguments)
    isMixed = isMixed || (value.isTensor() && value.toTensor().defined() &&
                          value.toTensor().scalar_type() != self.scalar_type() &&
                          argument.name() != "mask" && argument.name() != "index");
  std::string result = values.emit(application).front();
  return isMixed ? cast(result) : result;
}

} // namespace dtc::torchscript
