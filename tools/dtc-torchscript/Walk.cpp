#include "Walk.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cctype>

namespace dtc::torchscript {

using torch::jit::Block;
using torch::jit::Function;
using torch::jit::Node;
namespace prim = c10::prim;
namespace attr = c10::attr;

static constexpr int64_t kMostSteps = 4 << 20; // of nodes, loops unrolled
static constexpr size_t kDeepestCall = 200;

const c10::IValue &Walk::input(const Node &node, size_t i, const Frame &frame) const {
  auto found = frame.find(node.inputs()[i]);
  if (found == frame.end())
    throw Refusal("uses a value that is not set");
  return found->second;
}

/// "/path/model.py:12" of a frame as traces write it: "/path/model.py(12): forward".
static std::string placeOfFrame(const std::string &line) {
  const size_t close = line.find("): ");
  const size_t open = close == std::string::npos ? close : line.rfind('(', close);
  if (open == std::string::npos || open == 0 || open + 1 == close || std::isspace(line[0]) ||
      line.find_first_not_of("0123456789", open + 1) != close)
    return "";
  return line.substr(0, open) + ":" + line.substr(open + 1, close - open - 1);
}

/// A trace's text is its stack, the innermost frame first; a script's is its source.
static std::vector<std::string> placesOf(const torch::jit::SourceRange &range) {
  std::vector<std::string> places;
  const std::string text = range.source() ? range.source()->text_str().str() : "";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string place = placeOfFrame(text.substr(begin, end - begin));
    if (place.empty())
      break;
    places.push_back(std::move(place));
    begin = end + 1;
  }
  auto place = range.file_line_col();
  if (places.empty() && place && !std::get<0>(*place).empty())
    places.push_back(std::get<0>(*place) + ":" + std::to_string(std::get<1>(*place)));
  return places;
}

/// The innermost place that isn't PyTorch's own.
std::string Walk::sourceOf(const Node &node) const {
  std::string found;
  auto look = [&](const Node &at) {
    torch::jit::SourceRange range = at.sourceRange();
    if (auto original = range.findSourceRangeThatGenerated())
      range = *original;
    for (const std::string &place : placesOf(range)) {
      const bool own =
          place.find("/torch/") == std::string::npos && place.rfind("code/__torch__/torch", 0) != 0;
      if (found.empty() || own)
        found = place.substr(place.rfind('/') + 1);
      if (own)
        return true;
    }
    return false;
  };
  if (look(node))
    return found;
  for (size_t i = calls.size(); i-- > 0;)
    if (look(*calls[i]))
      break;
  return found;
}

c10::IValue Walk::call(Function &function, std::vector<c10::IValue> arguments) {
  torch::jit::GraphFunction *graph = torch::jit::tryToGraphFunction(function);
  if (!graph)
    throw Refusal("calls a function that is not TorchScript: " + function.name());
  if (calls.size() > kDeepestCall)
    throw Refusal("has functions that call each other too deeply");
  const auto body = graph->graph();
  Frame frame;
  if (body->inputs().size() != arguments.size())
    throw Refusal("calls a function with another number of arguments: " + function.name());
  for (size_t i = 0; i < arguments.size(); ++i)
    frame[body->inputs()[i]] = std::move(arguments[i]);
  runBlock(*body->block(), frame);
  return frame.at(body->outputs().at(0));
}

void Walk::runBlock(const Block &block, Frame &frame) {
  for (const Node *node : block.nodes()) {
    if (++steps > kMostSteps)
      throw Refusal("runs more than " + std::to_string(kMostSteps) + " operations (" +
                    sourceOf(*node) + ")");
    runNode(*node, frame);
  }
}

void Walk::runNode(const Node &node, Frame &frame) {
  if (runControl(node, frame) || runAttribute(node, frame) || runConstruction(node, frame) ||
      runUnpacking(node, frame))
    return;
  torch::jit::Stack stack;
  const std::string source = sourceOf(node);
  const std::string place = std::string("node ") + node.kind().toQualString() +
                            (source.empty() ? "" : " (" + source + ")") + ": ";
  try {
    for (size_t i = 0; i < node.inputs().size(); ++i)
      stack.push_back(input(node, i, frame));
    operators.run(node, stack, source);
  } catch (const Refusal &refusal) {
    throw Refusal(place + refusal.what());
  } catch (const c10::Error &error) {
    const std::string text = error.what_without_backtrace();
    throw Refusal(place + text.substr(0, text.find('\n')));
  }
  if (stack.size() != node.outputs().size())
    throw Refusal(place + "gives another number of results than expected");
  for (size_t i = 0; i < stack.size(); ++i)
    frame[node.outputs()[i]] = std::move(stack[i]);
}

bool Walk::runControl(const Node &node, Frame &frame) {
  switch (node.kind()) {
  case prim::Constant: {
    auto value = torch::jit::toIValue(node.output());
    frame[node.output()] = value ? values.adopt(*value) : c10::IValue(); // a function's name
    return true;
  }
  case prim::If:
    runIf(node, frame);
    return true;
  case prim::Loop:
    runLoop(node, frame);
    return true;
  case prim::CallMethod:
  case prim::CallFunction:
    runCall(node, frame);
    return true;
  case prim::RaiseException:
    throw Refusal("node prim::RaiseException (" + sourceOf(node) + "): the model refuses: " +
                  (input(node, 0, frame).isString() ? input(node, 0, frame).toStringRef()
                                                    : "it raises an exception"));
  case prim::Print:
    return true;
  case prim::Enter:
  case prim::Exit: {
    const c10::IValue object = input(node, 0, frame);
    const bool enters = node.kind() == prim::Enter;
    Function *method = object.toObject()->type()->findMethod(enters ? "__enter__" : "__exit__");
    if (!method)
      throw Refusal("enters a context that is not supported (" + sourceOf(node) + ")");
    std::vector<c10::IValue> arguments = {object};
    arguments.resize(enters ? 1 : 4);
    c10::IValue result = call(*method, std::move(arguments));
    if (!node.outputs().empty())
      frame[node.output()] = std::move(result);
    return true;
  }
  default:
    return node.kind() == c10::aten::warn;
  }
}

void Walk::runIf(const Node &node, Frame &frame) {
  const Block &chosen = *node.blocks()[input(node, 0, frame).toBool() ? 0 : 1];
  runBlock(chosen, frame);
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    c10::IValue value = frame.at(chosen.outputs()[i]);
    frame[node.outputs()[i]] = std::move(value);
  }
}

void Walk::runLoop(const Node &node, Frame &frame) {
  const int64_t most = input(node, 0, frame).toInt();
  bool goes = input(node, 1, frame).toBool();
  const Block &body = *node.blocks()[0];
  std::vector<c10::IValue> carried;
  for (size_t i = 2; i < node.inputs().size(); ++i)
    carried.push_back(input(node, i, frame));
  for (int64_t trip = 0; trip < most && goes; ++trip) {
    frame[body.inputs()[0]] = trip;
    for (size_t i = 0; i < carried.size(); ++i)
      frame[body.inputs()[i + 1]] = carried[i];
    if (++steps > kMostSteps)
      throw Refusal("runs more than " + std::to_string(kMostSteps) + " operations");
    runBlock(body, frame);
    goes = frame.at(body.outputs()[0]).toBool();
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = frame.at(body.outputs()[i + 1]);
  }
  for (size_t i = 0; i < carried.size(); ++i)
    frame[node.outputs()[i]] = carried[i];
}

void Walk::runCall(const Node &node, Frame &frame) {
  std::vector<c10::IValue> arguments;
  Function *callee = nullptr;
  if (node.kind() == prim::CallMethod) {
    callee = input(node, 0, frame).toObject()->type()->findMethod(node.s(attr::name));
    arguments.push_back(input(node, 0, frame));
  } else {
    callee = node.input(0)->type()->expect<c10::FunctionType>()->function();
  }
  for (size_t i = 1; i < node.inputs().size(); ++i)
    arguments.push_back(input(node, i, frame));
  if (!callee)
    throw Refusal("calls a method that is not there (" + sourceOf(node) + ")");
  calls.push_back(&node);
  c10::IValue result = call(*callee, std::move(arguments));
  calls.pop_back();
  frame[node.output()] = std::move(result);
}

c10::IValue Walk::attribute(const c10::IValue &object, const std::string &name) {
  const auto holder = object.toObject();
  const size_t slot = holder->type()->getAttributeSlot(name);
  auto [found, fresh] = attributes.try_emplace({holder.get(), slot});
  if (fresh)
    found->second = values.adopt(holder->getSlot(slot));
  return found->second;
}

bool Walk::runAttribute(const Node &node, Frame &frame) {
  switch (node.kind()) {
  case prim::GetAttr:
    frame[node.output()] = attribute(input(node, 0, frame), node.s(attr::name));
    return true;
  case prim::SetAttr:
    runSetAttribute(node, frame);
    return true;
  case prim::CreateObject: {
    auto type = node.output()->type()->expect<c10::ClassType>();
    frame[node.output()] =
        c10::ivalue::Object::create(c10::StrongTypePtr(unit, type), type->numAttributes());
    return true;
  }
  default:
    return false;
  }
}

void Walk::runSetAttribute(const Node &node, Frame &frame) {
  const auto holder = input(node, 0, frame).toObject();
  const std::string &name = node.s(attr::name);
  const size_t slot = holder->type()->getAttributeSlot(name);
  const c10::IValue &value = input(node, 1, frame);
  if (holder->type()->is_module()) {
    const c10::IValue &before = holder->getSlot(slot);
    const std::string buffer = before.isTensor() ? values.bufferOf(before.toTensor()) : "";
    if (buffer.empty() || !value.isTensor())
      throw Refusal("changes the attribute " + name + " of a module, which is not supported (" +
                    sourceOf(node) + ")");
    values.setBuffer(buffer, value.toTensor());
  }
  attributes[{holder.get(), slot}] = value;
}

/// What isn't an operator of its own: tuples, lists, dictionaries.
bool Walk::runConstruction(const Node &node, Frame &frame) {
  std::vector<c10::IValue> inputs;
  auto take = [&] {
    for (size_t i = 0; i < node.inputs().size(); ++i)
      inputs.push_back(input(node, i, frame));
  };
  switch (node.kind()) {
  case prim::TupleConstruct: {
    take();
    auto type = node.output()->type()->expect<c10::TupleType>();
    frame[node.output()] = type->schema() ? c10::ivalue::Tuple::createNamed(inputs, type)
                                          : c10::ivalue::Tuple::create(inputs);
    return true;
  }
  case prim::ListConstruct: {
    take();
    c10::impl::GenericList list(node.output()->type()->expect<c10::ListType>()->getElementType());
    for (const c10::IValue &each : inputs)
      list.push_back(each);
    frame[node.output()] = list;
    return true;
  }
  case prim::DictConstruct: {
    take();
    auto type = node.output()->type()->expect<c10::DictType>();
    c10::impl::GenericDict dict(type->getKeyType(), type->getValueType());
    for (size_t i = 0; i + 1 < inputs.size(); i += 2)
      dict.insert_or_assign(inputs[i], inputs[i + 1]);
    frame[node.output()] = dict;
    return true;
  }
  default:
    return false;
  }
}

/// What tuples and lists hold, and questions for types.
bool Walk::runUnpacking(const Node &node, Frame &frame) {
  std::vector<c10::IValue> inputs;
  auto take = [&] {
    for (size_t i = 0; i < node.inputs().size(); ++i)
      inputs.push_back(input(node, i, frame));
  };
  switch (node.kind()) {
  case prim::ListUnpack: {
    take();
    const c10::List<c10::IValue> list = inputs[0].toList();
    if (list.size() != node.outputs().size())
      throw Refusal("unpacks a list of another length (" + sourceOf(node) + ")");
    for (size_t i = 0; i < list.size(); ++i)
      frame[node.outputs()[i]] = list.get(i);
    return true;
  }
  case prim::TupleUnpack: {
    take();
    for (size_t i = 0; i < node.outputs().size(); ++i)
      frame[node.outputs()[i]] = inputs[0].toTupleRef().elements().at(i);
    return true;
  }
  case prim::TupleSlice: {
    take();
    const auto &all = inputs[0].toTupleRef().elements();
    std::vector<c10::IValue> part;
    for (int64_t i = node.i(attr::beg); i < node.i(attr::end); ++i)
      part.push_back(all.at(static_cast<size_t>(i)));
    frame[node.output()] = c10::ivalue::Tuple::create(std::move(part));
    return true;
  }
  case prim::isinstance: {
    take();
    bool is = false;
    for (const c10::TypePtr &type : node.tys(attr::types))
      is = is || inputs[0].type()->isSubtypeOf(*type);
    frame[node.output()] = is;
    return true;
  }
  case prim::unchecked_cast:
  case prim::unchecked_unwrap_optional:
    take();
    frame[node.output()] = inputs[0];
    return true;
  case prim::Uninitialized:
    frame[node.output()] = c10::IValue::uninitialized();
    return true;
  default:
    return false;
  }
}

} // namespace dtc::torchscript
