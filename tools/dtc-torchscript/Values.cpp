#include "Values.h"

#include <algorithm>

namespace dtc::torchscript {

int64_t serializedType(at::ScalarType type) {
  switch (type) {
  case at::ScalarType::BFloat16:
    return 13;
  case at::ScalarType::Bool:
    return 12;
  case at::ScalarType::UInt16:
    return 28;
  case at::ScalarType::UInt32:
    return 34;
  case at::ScalarType::UInt64:
    return 35;
  default:
    break;
  }
  if (type > at::ScalarType::ComplexDouble)
    throw Refusal(std::string("has a tensor of an unsupported type: ") + c10::toString(type));
  return static_cast<int64_t>(type) + 1;
}

static Json sizesOf(c10::IntArrayRef sizes) {
  Json result = Json::array();
  for (int64_t size : sizes)
    result.push_back({{"as_int", size}});
  return result;
}

Json metaOf(const at::Tensor &tensor) {
  return {{"dtype", serializedType(tensor.scalar_type())},
          {"sizes", sizesOf(tensor.sizes())},
          {"strides", sizesOf(tensor.strides())},
          {"storage_offset", {{"as_int", tensor.storage_offset()}}},
          {"requires_grad", tensor.requires_grad()}};
}

void forEachTensor(const c10::IValue &value, const std::function<void(const at::Tensor &)> &visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue &each : value.toListRef())
      forEachTensor(each, visit);
  } else if (value.isTuple()) {
    for (const c10::IValue &each : value.toTupleRef().elements())
      forEachTensor(each, visit);
  } else if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict())
      forEachTensor(entry.value(), visit);
  }
}

c10::IValue mapTensors(const c10::IValue &value,
                       const std::function<at::Tensor(const at::Tensor &)> &map) {
  if (value.isTensor())
    return value.toTensor().defined() ? c10::IValue(map(value.toTensor())) : value;
  if (value.isTensorList() ||
      (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList())) {
    const c10::List<c10::IValue> before = value.toList();
    c10::impl::GenericList after(before.elementType());
    for (const c10::IValue &each : before)
      after.push_back(mapTensors(each, map));
    return after;
  }
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue &each : value.toTupleRef().elements())
      elements.push_back(mapTensors(each, map));
    auto type = value.toTuple()->type();
    return type->schema() ? c10::ivalue::Tuple::createNamed(std::move(elements), type)
                          : c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isGenericDict()) {
    const auto before = value.toGenericDict();
    c10::impl::GenericDict after(before.keyType(), before.valueType());
    for (const auto &entry : before)
      after.insert(entry.key(), mapTensors(entry.value(), map));
    return after;
  }
  return value;
}

Values::Values(const Archive &archive, Program &program) : archive(archive), program(program) {
  auto add = [&](const std::string &name, const at::Tensor &tensor, TensorKind kind) {
    if (!tensor.defined())
      return;
    kept.push_back(tensor);
    const std::string value = program.freshName("w_" + name);
    weights.try_emplace(tensor.unsafeGetTensorImpl(), Weight{value, name, kind});
    program.addTensor({value, name, kind, archive.memberOf(tensor), "", metaOf(tensor)});
  };
  for (const auto &each : archive.module.named_parameters())
    add(each.name, each.value, TensorKind::Parameter);
  for (const auto &each : archive.module.named_buffers())
    add(each.name, each.value, TensorKind::Buffer);
}

Value &Values::insert(const at::Tensor &tensor, std::shared_ptr<Elements> elements,
                      const std::string &name) {
  kept.push_back(tensor);
  Value &value = values[tensor.unsafeGetTensorImpl()];
  value.tensor = tensor;
  value.sizes = tensor.sizes().vec();
  value.strides = tensor.strides().vec();
  value.name = name;
  value.version = elements->version;
  value.elements = std::move(elements);
  return value;
}

at::Tensor Values::addInput(const std::string &name, const std::vector<int64_t> &sizes,
                            at::ScalarType type, bool isTyped) {
  const at::Tensor tensor = at::empty(sizes, at::TensorOptions(type).device(at::kMeta));
  program.addInput(name, metaOf(tensor));
  auto elements = std::make_shared<Elements>();
  elements->current = name;
  if (!isTyped)
    elements->untypedInput = name;
  stored[tensor.storage().unsafeGetStorageImpl()] = elements;
  insert(tensor, elements, name);
  return tensor;
}

static std::string hexadecimal(const at::Tensor &tensor) {
  static const char digits[] = "0123456789abcdef";
  const auto *bytes = static_cast<const unsigned char *>(tensor.const_data_ptr());
  std::string text;
  for (size_t i = 0; i < tensor.nbytes(); ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

at::Tensor Values::adopt(const at::Tensor &tensor) {
  if (has(tensor))
    return tensor;
  if (auto found = adopted.find(tensor.unsafeGetTensorImpl()); found != adopted.end())
    return found->second;
  TORCH_CHECK(tensor.is_cpu() && tensor.layout() == at::kStrided,
              "a tensor of a kind that is not supported");
  kept.push_back(tensor);
  auto weight = weights.find(tensor.unsafeGetTensorImpl());
  auto elements = std::make_shared<Elements>();
  if (weight != weights.end()) {
    elements->current = weight->second.value;
    (weight->second.kind == TensorKind::Parameter ? elements->parameter : elements->buffer) =
        weight->second.name;
  } else {
    const at::Tensor bytes = tensor.contiguous();
    const std::string member = archive.memberOf(tensor);
    const std::string name = program.freshName("constant");
    if (member.empty() && tensor.numel() > kMostKnown)
      throw Refusal("computes a constant of " + std::to_string(tensor.numel()) + " elements");
    program.addTensor({name, name, TensorKind::Constant, member,
                       member.empty() ? hexadecimal(bytes) : "",
                       metaOf(member.empty() ? bytes : tensor)});
    elements->current = name;
  }
  const at::Tensor made = at::empty_strided(
      tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
  stored[made.storage().unsafeGetStorageImpl()] = elements;
  Value &value = insert(made, elements, elements->current);
  if (elements->parameter.empty() && tensor.numel() <= kMostKnown)
    value.known = tensor.clone();
  if (!elements->buffer.empty())
    buffers.emplace_back(elements->buffer, elements);
  return adopted[tensor.unsafeGetTensorImpl()] = made;
}

c10::IValue Values::adopt(const c10::IValue &value) {
  bool any = false;
  forEachTensor(value, [&](const at::Tensor &tensor) { any = any || !has(tensor); });
  return any ? mapTensors(value, [&](const at::Tensor &tensor) { return adopt(tensor); }) : value;
}

bool Values::has(const at::Tensor &tensor) const {
  return values.count(tensor.unsafeGetTensorImpl()) != 0;
}

const Value &Values::value(const at::Tensor &tensor) const {
  auto found = values.find(tensor.unsafeGetTensorImpl());
  if (found == values.end())
    throw Refusal("makes a tensor in a way that is not supported");
  return found->second;
}

at::Tensor Values::known(const at::Tensor &tensor) const {
  const Value &found = value(tensor);
  return found.elements->changedBlindly ? at::Tensor() : found.known;
}

/// The names of what the views on the way to the tensor are taken of, all elements first.
std::vector<std::string> Values::prefixes(const Value &value) {
  std::vector<std::string> names = {value.elements->current};
  for (const View &view : value.views)
    names.push_back(emit(*view.of, view.self, names.back())[view.result]);
  return names;
}

std::string Values::name(const at::Tensor &tensor) {
  const Value &found = value(tensor);
  if (found.version == found.elements->version)
    return found.name;
  const std::string name = prefixes(found).back();
  Value &renamed = values[tensor.unsafeGetTensorImpl()];
  renamed.name = name;
  renamed.version = renamed.elements->version;
  return name;
}

void Values::define(const std::shared_ptr<Application> &application,
                    const std::vector<at::Tensor> &results, const std::vector<at::Tensor> &known) {
  if (std::all_of(results.begin(), results.end(),
                  [&](const at::Tensor &result) { return !result.defined() || has(result); }))
    return;
  application->results = results.size();
  const std::vector<std::string> names = emit(*application);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || has(results[i]))
      continue;
    auto shared = stored.find(results[i].storage().unsafeGetStorageImpl());
    if (shared == stored.end()) {
      auto elements = std::make_shared<Elements>();
      elements->current = names[i];
      stored[results[i].storage().unsafeGetStorageImpl()] = elements;
      insert(results[i], elements, names[i]);
    } else {
      View view{application, 0, i, {}, results[i].sizes().vec(), {}};
      std::vector<View> views;
      bool found = false;
      for (size_t at = 0; at < application->arguments.size() && !found; ++at) {
        const c10::IValue &argument = application->arguments[at].second;
        if (!argument.isTensor() || !argument.toTensor().defined() ||
            value(argument.toTensor()).elements != shared->second)
          continue;
        found = true;
        view.self = at;
        view.from = argument.toTensor().sizes().vec();
        view.strides = argument.toTensor().strides().vec();
        view.offset = results[i].storage_offset() - argument.toTensor().storage_offset();
        views = value(argument.toTensor()).views;
      }
      if (!found)
        throw Refusal("shares elements in a way that is not supported: " + application->target);
      views.push_back(std::move(view));
      insert(results[i], shared->second, names[i]).views = std::move(views);
    }
    if (i < known.size() && known[i].defined() && known[i].numel() <= kMostKnown)
      values[results[i].unsafeGetTensorImpl()].known = known[i];
  }
}

void Values::assign(const at::Tensor &self, const std::string &changed, bool isKnown,
                    const Application &by) {
  const Value before = value(self);
  Elements &elements = *before.elements;
  if (!elements.parameter.empty())
    throw Refusal("changes the parameter " + elements.parameter + " in place");
  std::string part = changed;
  if (!before.views.empty()) {
    const std::vector<std::string> wholes = prefixes(before);
    for (size_t i = before.views.size(); i-- > 0;)
      part = putBack(before.views[i], wholes[i], part, by);
  }
  elements.current = part;
  ++elements.version;
  elements.changedBlindly = elements.changedBlindly || !isKnown;
  Value &after = values[self.unsafeGetTensorImpl()];
  after.name = changed;
  after.version = elements.version;
}

void Values::addBufferChanges() {
  for (const auto &[name, elements] : buffers)
    if (elements->version > 0)
      program.addBufferChange(name, elements->current);
}

void Values::setBuffer(const std::string &buffer, const at::Tensor &tensor) {
  if (value(tensor).elements->buffer != buffer) // which addBufferChanges tells
    program.addBufferChange(buffer, name(tensor));
}

std::string Values::bufferOf(const at::Tensor &tensor) const {
  auto found = weights.find(tensor.unsafeGetTensorImpl());
  return found != weights.end() && found->second.kind == TensorKind::Buffer ? found->second.name
                                                                            : "";
}

} // namespace dtc::torchscript
