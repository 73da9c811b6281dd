#include "Readers.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;

namespace dtc::import {

static constexpr const char *kScopes = "pkg.torch.onnx.name_scopes";

/// Of /m/layer_2/norm_1/Add it is /m/layer/norm: later calls of a module are numbered.
static std::string olderModule(StringRef node) {
  std::string module;
  SmallVector<StringRef> parts;
  node.split(parts, '/');
  for (StringRef part : ArrayRef(parts).drop_front().drop_back()) {
    const StringRef name = part.rtrim("0123456789");
    const bool isNumbered = name.size() < part.size() && name.ends_with("_");
    module += "/" + (isNumbered ? name.drop_back() : part).str();
  }
  return module;
}

std::string moduleOf(const onnx::NodeProto &node) {
  // In `['', 'm', 'm.wte', 'embedding']` it is the last but one.
  const std::string scopes = metadata(node.metadata_props(), kScopes);
  if (scopes.empty())
    return StringRef(node.name()).contains('/') ? olderModule(node.name()) : "";
  SmallVector<StringRef> parts;
  StringRef(scopes).trim("[]").split(parts, ',');
  return parts.size() < 2 ? "" : parts[parts.size() - 2].trim(" '\"").str();
}

/// What a Cast makes; null for other operators.
static Type castTarget(const Model &model, const onnx::NodeProto &node) {
  if (node.op_type() == "Cast")
    for (const auto &attribute : node.attribute())
      if (attribute.name() == "to")
        return elementType(model.location.getContext(), attribute.i());
  return {};
}

Readers::Readers(const Model &model) {
  std::map<std::string, std::string> origins; // of what is renamed or cast
  auto originOf = [&](const std::string &name) {
    auto found = origins.find(name);
    return found == origins.end() ? name : found->second;
  };
  for (const onnx::NodeProto *node : model.nodes) {
    const bool renames = node->op_type() == "Identity";
    const bool passes = renames || isa_and_nonnull<FloatType>(castTarget(model, *node));
    if (passes && isDefaultDomain(node->domain()) && node->input_size() == 1 &&
        node->output_size() == 1) {
      const std::string origin = originOf(node->input(0));
      origins[node->output(0)] = origin;
      if (renames)
        names[origin].push_back(node->output(0));
      continue;
    }
    for (int i = 0; i < node->input_size(); ++i)
      uses[originOf(node->input(i))].push_back({node, i});
  }
}

ArrayRef<TensorUse> Readers::of(const std::string &name) const {
  auto found = uses.find(name);
  return found == uses.end() ? ArrayRef<TensorUse>() : ArrayRef<TensorUse>(found->second);
}

ArrayRef<std::string> Readers::namesOf(const std::string &name) const {
  auto found = names.find(name);
  return found == names.end() ? ArrayRef<std::string>() : ArrayRef<std::string>(found->second);
}

} // namespace dtc::import
