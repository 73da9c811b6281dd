// Applications as calls of the program, and how a changed part gets back into the whole.
#include "Values.h"

#include <algorithm>
#include <cmath>

namespace dtc::torchscript {

static Json floatValue(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json Values::listArgument(const c10::IValue &value, const c10::TypePtr &element) {
  Json list = Json::array();
  const bool floats = element && element->kind() == c10::TypeKind::FloatType;
  if (value.isIntList() && !floats)
    return {{"as_ints", value.toIntVector()}};
  if (value.isBoolList()) {
    for (bool each : value.toBoolList())
      list.push_back(each);
    return {{"as_bools", list}};
  }
  bool isTensor = false, hasNone = false, isFloat = floats;
  for (const c10::IValue &each : value.toListRef()) {
    isTensor = isTensor || each.isTensor();
    hasNone = hasNone || each.isNone();
    isFloat = isFloat || each.isDouble();
  }
  for (const c10::IValue &each : value.toListRef()) {
    const bool absent = each.isNone() || (each.isTensor() && !each.toTensor().defined());
    if (isTensor || hasNone)
      list.push_back(absent ? Json{{"as_none", Json::array()}}
                            : tensorArgument(name(each.toTensor())));
    else if (isFloat)
      list.push_back(floatValue(each.toScalar().toDouble()));
    else
      list.push_back(each.toScalar().toLong());
  }
  if (isTensor || hasNone)
    return {{"as_optional_tensors", list}};
  return {{isFloat ? "as_floats" : "as_ints", list}};
}

/// Null where the argument changes nothing that is computed.
Json Values::argumentOf(const c10::IValue &value, const c10::TypePtr &declared) {
  c10::TypePtr type = declared;
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  switch (type->kind()) {
  case c10::TypeKind::MemoryFormatType:
  case c10::TypeKind::LayoutType:
  case c10::TypeKind::DeviceObjType:
  case c10::TypeKind::GeneratorType:
    return nullptr;
  default:
    break;
  }
  if (value.isNone() || value.isDevice() || value.isGenerator())
    return nullptr;
  if (value.isTensor())
    return value.toTensor().defined() ? tensorArgument(name(value.toTensor())) : Json(nullptr);
  if (type->kind() == c10::TypeKind::ScalarTypeType)
    return {{"as_scalar_type", serializedType(static_cast<at::ScalarType>(value.toInt()))}};
  if (value.isBool())
    return {{"as_bool", value.toBool()}};
  if (value.isInt() && type->kind() == c10::TypeKind::FloatType)
    return {{"as_float", static_cast<double>(value.toInt())}};
  if (value.isInt())
    return intArgument(value.toInt());
  if (value.isDouble())
    return {{"as_float", floatValue(value.toDouble())}};
  if (value.isString())
    return {{"as_string", value.toStringRef()}};
  if (value.isList()) {
    auto list = type->cast<c10::ListType>();
    return listArgument(value, list ? list->getElementType() : nullptr);
  }
  throw Refusal("has an argument of a kind that is not supported: " + value.tagKind());
}

static bool isDefault(const c10::Argument &argument, const c10::IValue &value) {
  const auto &given = argument.default_value();
  if (!given || given->isTensor() || value.isTensor())
    return false;
  if (given->isBool() && value.isBool())
    return given->toBool() == value.toBool();
  if (given->isInt() && value.isInt())
    return given->toInt() == value.toInt();
  if (given->isDouble() && value.isDouble())
    return given->toDouble() == value.toDouble();
  if (given->isString() && value.isString())
    return given->toStringRef() == value.toStringRef();
  if (given->isIntList() && value.isIntList())
    return given->toIntVector() == value.toIntVector();
  return false;
}

std::vector<std::string> Values::emit(const Application &application, std::optional<size_t> self,
                                      const std::string &selfName) {
  Call call;
  call.target = application.target;
  call.source = application.source;
  call.isList = application.isList;
  for (size_t i = 0; i < application.arguments.size(); ++i) {
    const auto &[argument, value] = application.arguments[i];
    if (self == i) {
      call.inputs.push_back(named(argument.name(), tensorArgument(selfName)));
      continue;
    }
    if (isDefault(argument, value) || argument.name() == "pin_memory")
      continue;
    Json written = argumentOf(value, argument.real_type());
    if (!written.is_null())
      call.inputs.push_back(named(argument.name(), std::move(written)));
  }
  for (size_t i = 0; i < application.results; ++i)
    call.results.push_back(program.freshName(application.hint));
  std::vector<std::string> results = call.results;
  program.addCall(std::move(call));
  if (!application.tracksGradients)
    for (std::string &result : results)
      result = emit("aten.detach.default", Json::array({named("self", tensorArgument(result))}),
                    application);
  return results;
}

std::string Values::emit(const std::string &target, Json inputs, const Application &like) {
  Call call;
  call.target = target;
  call.source = like.source;
  call.inputs = std::move(inputs);
  call.results.push_back(program.freshName(like.hint));
  std::string result = call.results.front();
  program.addCall(std::move(call));
  return result;
}

static const c10::IValue *find(const Application &application, const std::string &name) {
  for (const auto &[argument, value] : application.arguments)
    if (argument.name() == name)
      return &value;
  return nullptr;
}

static int64_t axisOf(const View &view, const std::string &name, int64_t rank) {
  const c10::IValue *found = find(*view.of, name);
  return c10::maybe_wrap_dim(found ? found->toInt() : 0, rank);
}

/// [:begin] and [end:] of the whole with the part between them.
std::string Values::putSlice(const View &view, int64_t dim, int64_t begin, int64_t end,
                             const std::string &whole, const std::string &part,
                             const Application &by) {
  Json pieces = Json::array();
  auto add = [&](const std::string &name) { pieces.push_back({{"name", name}}); };
  auto slice = [&](int64_t from, int64_t to) {
    if (from < to)
      add(emit("aten.slice.Tensor",
               Json::array({named("self", tensorArgument(whole)), named("dim", intArgument(dim)),
                            named("start", intArgument(from)), named("end", intArgument(to))}),
               by));
  };
  slice(0, begin);
  if (begin < end)
    add(part);
  slice(end, view.from.at(dim));
  if (pieces.size() == 1)
    return pieces[0]["name"];
  return emit(
      "aten.cat.default",
      Json::array({named("tensors", {{"as_tensors", pieces}}), named("dim", intArgument(dim))}),
      by);
}

std::string Values::putBack(const View &view, const std::string &whole, const std::string &part,
                            const Application &by) {
  const Application &of = *view.of;
  std::string op = of.target.substr(5);
  op = op.substr(0, op.find('.'));
  const int64_t rank = static_cast<int64_t>(view.from.size());
  auto is = [&](std::initializer_list<const char *> names) {
    return std::any_of(names.begin(), names.end(), [&](const char *each) { return op == each; });
  };
  auto self = [&](const std::string &name) { return named("self", tensorArgument(name)); };
  if (is({"alias", "contiguous", "to", "positive", "dropout"}) && view.from == view.to)
    return part;
  if (is({"expand", "expand_as", "broadcast_to"}) && view.from == view.to)
    return part;
  if (is({"view", "reshape", "flatten", "unsqueeze", "squeeze", "unflatten", "_unsafe_view",
          "view_as", "reshape_as"}))
    return emit("aten.reshape.default",
                Json::array({self(part), named("shape", intsArgument(view.from))}), by);
  if (is({"t", "numpy_T"}) && rank == 2)
    return emit(
        "aten.transpose.int",
        Json::array({self(part), named("dim0", intArgument(0)), named("dim1", intArgument(1))}),
        by);
  if (is({"transpose"}))
    return emit("aten.transpose.int",
                Json::array({self(part), named("dim0", intArgument(axisOf(view, "dim0", rank))),
                             named("dim1", intArgument(axisOf(view, "dim1", rank)))}),
                by);
  if (is({"permute"})) {
    const std::vector<int64_t> order = find(of, "dims")->toIntVector();
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      back[c10::maybe_wrap_dim(order[i], rank)] = static_cast<int64_t>(i);
    return emit("aten.permute.default",
                Json::array({self(part), named("dims", intsArgument(back))}), by);
  }
  if (is({"select", "unbind"})) {
    const int64_t dim = axisOf(view, "dim", rank);
    const int64_t at = op == "unbind"
                           ? static_cast<int64_t>(view.result)
                           : c10::maybe_wrap_dim(find(of, "index")->toInt(), view.from[dim]);
    const std::string wide = emit("aten.unsqueeze.default",
                                  Json::array({self(part), named("dim", intArgument(dim))}), by);
    return putSlice(view, dim, at, at + 1, whole, wide, by);
  }
  if (is({"slice", "narrow", "chunk", "split", "split_with_sizes", "unsafe_chunk", "unsafe_split",
          "unsafe_split_with_sizes"})) {
    const int64_t dim = axisOf(view, "dim", rank), stride = view.strides.at(dim);
    const c10::IValue *step = find(of, "step");
    if (stride == 0 || (step && step->isInt() && step->toInt() != 1 && view.from != view.to))
      throw Refusal("changes a slice with steps in place");
    const int64_t begin = view.offset / stride;
    return putSlice(view, dim, begin, begin + view.to[dim], whole, part, by);
  }
  throw Refusal("changes a part of a tensor in place, which it took by aten::" + op);
}

} // namespace dtc::torchscript
