#include "Program.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

namespace dtc::torchscript {

/// dtc refuses graphs with more nodes, so that no more are recorded.
static constexpr size_t kMostCalls = 1 << 18;

Json tensorArgument(const std::string &value) { return {{"as_tensor", {{"name", value}}}}; }
Json intArgument(int64_t value) { return {{"as_int", value}}; }
Json intsArgument(const std::vector<int64_t> &values) { return {{"as_ints", values}}; }
Json named(const std::string &name, Json argument) {
  return {{"name", name}, {"arg", std::move(argument)}};
}

std::string Program::freshName(const std::string &like) {
  std::string name;
  for (char letter : like)
    name += std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())))
    name = "v" + name;
  for (;;) {
    const int64_t used = taken[name]++;
    if (used == 0)
      return name;
    std::string numbered = name + "_" + std::to_string(used);
    if (taken.try_emplace(numbered, 1).second)
      return numbered;
  }
}

void Program::addInput(const std::string &name, Json meta) {
  taken[name] = 1;
  inputs.emplace_back(name, std::move(meta));
}

void Program::addCall(Call call) {
  if (calls.size() >= kMostCalls)
    throw Refusal("has more than " + std::to_string(kMostCalls) +
                  " operators once its loops are unrolled");
  calls.push_back(std::move(call));
}

void Program::addOutput(const std::string &value) { outputs.push_back(value); }

void Program::addBufferChange(const std::string &buffer, const std::string &value) {
  bufferChanges.emplace_back(buffer, value);
}

/// Visits the names of tensors within an argument.
static void forEachTensor(const Json &argument,
                          const std::function<void(const std::string &)> &visit) {
  if (!argument.is_structured())
    return;
  for (const auto &[key, value] : argument.items())
    if (argument.is_object() && key == "as_tensor")
      visit(value.at("name").get_ref<const std::string &>());
    else if (argument.is_object() && key == "as_tensors")
      for (const Json &each : value)
        visit(each.at("name").get_ref<const std::string &>());
    else
      forEachTensor(value, visit);
}

std::vector<size_t> Program::liveCalls() const {
  std::set<std::string> live(outputs.begin(), outputs.end());
  for (const auto &[buffer, value] : bufferChanges)
    live.insert(value);
  std::vector<size_t> result;
  for (size_t i = calls.size(); i-- > 0;) {
    const Call &call = calls[i];
    if (std::none_of(call.results.begin(), call.results.end(),
                     [&](const std::string &name) { return live.count(name) != 0; }))
      continue;
    result.push_back(i);
    for (const Json &input : call.inputs)
      forEachTensor(input, [&](const std::string &name) { live.insert(name); });
  }
  std::reverse(result.begin(), result.end());
  return result;
}

static Json writeCall(const Call &call) {
  Json results = Json::array();
  for (const std::string &name : call.results)
    results.push_back({{"name", name}});
  Json outputs = Json::array();
  if (call.isList)
    outputs.push_back({{"as_tensors", results}});
  else
    for (const Json &result : results)
      outputs.push_back({{"as_tensor", result}});
  Json node = {{"target", "torch.ops." + call.target},
               {"name", call.results.front()},
               {"inputs", call.inputs},
               {"outputs", outputs},
               {"metadata", Json::object()}};
  if (const size_t colon = call.source.rfind(':'); colon != std::string::npos)
    node["metadata"]["stack_trace"] =
        "File \"" + call.source.substr(0, colon) + "\", line " + call.source.substr(colon + 1);
  return node;
}

static Json writeSpec(const StoredTensor &tensor) {
  const std::string kind = tensor.kind == TensorKind::Parameter ? "parameter"
                           : tensor.kind == TensorKind::Buffer  ? "buffer"
                                                                : "tensor_constant";
  return {{kind, {{"arg", {{"name", tensor.value}}}, {kind + "_name", tensor.name}}}};
}

std::string Program::write() const {
  Json inputSpecs = Json::array(), outputSpecs = Json::array(), nodes = Json::array();
  Json values = Json::object(), config = Json::object();
  for (const StoredTensor &tensor : tensors) {
    inputSpecs.push_back(writeSpec(tensor));
    Json entry = {{"use_pickle", false}, {"tensor_meta", tensor.meta}};
    if (tensor.member.empty())
      entry["bytes"] = tensor.bytes;
    else
      entry["path_name"] = tensor.member;
    config[tensor.name] = std::move(entry);
  }
  for (const auto &[name, meta] : inputs) {
    inputSpecs.push_back({{"user_input", {{"arg", tensorArgument(name)}}}});
    values[name] = meta;
  }
  for (const auto &[buffer, value] : bufferChanges)
    outputSpecs.push_back(
        {{"buffer_mutation", {{"arg", {{"name", value}}}, {"buffer_name", buffer}}}});
  for (const std::string &name : outputs)
    outputSpecs.push_back({{"user_output", {{"arg", tensorArgument(name)}}}});
  for (size_t i : liveCalls())
    nodes.push_back(writeCall(calls[i]));
  Json graph = {{"nodes", nodes}, {"tensor_values", values}};
  Json signature = {{"input_specs", inputSpecs}, {"output_specs", outputSpecs}};
  Json program = {{"schema_version", {{"major", 8}, {"minor", 0}}},
                  {"graph_module", {{"graph", graph}, {"signature", signature}}}};
  return program.dump() + "\n" + Json{{"config", config}}.dump() + "\n";
}

} // namespace dtc::torchscript
