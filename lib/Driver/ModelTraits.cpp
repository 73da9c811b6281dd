#include "ModelTraits.h"

#include "dtc-io/AttentionWindows.h"
#include "dtc-io/ModelTraits.h"
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/TokenChoices.h"
#include "dtc/Interpreter/DrawnResults.h"
#include "dtc/Raise/ConstantScale.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace dtc::driver {

static std::string headsOf(graph::AttentionOp attention) {
  auto query = graph::shapeOf(attention.getQuery()), key = graph::shapeOf(attention.getKey());
  std::string text = std::to_string(query[2]) + " of " + std::to_string(query[3]);
  return query[2] == key[2] ? text : text + ", " + std::to_string(key[2]) + " of keys";
}

/// Of all keys those that a query sees; nothing where a bias may hide some.
static std::optional<std::string> maskOf(graph::AttentionOp attention) {
  if (attention.getBias() || graph::shapeOf(attention.getKey())[1] == 1)
    return std::nullopt;
  return attention.getCausal() ? "causal" : "none";
}

/// Of the masks and scales of attention, those that all of it has.
static void addAttention(ModuleOp module, std::map<std::string, std::string> &traits) {
  std::set<std::string> masks;
  std::set<double> scales;
  bool hasUnknown = false;
  module.walk([&](graph::AttentionOp attention) {
    scales.insert(attention.getScale().convertToDouble() * raise::scaleOf(attention.getQuery()) *
                  raise::scaleOf(attention.getKey()));
    if (auto mask = maskOf(attention))
      masks.insert(*mask);
    else
      hasUnknown = true;
  });
  if (!scales.empty())
    traits[io::kScaleTrait] = io::numbersText({scales.begin(), scales.end()});
  if (!masks.empty() && !hasUnknown)
    traits[io::kMasksTrait] = llvm::join(masks, "; ");
}

std::map<std::string, std::string> traitsOf(ModuleOp module, const training::TrainOptions &train) {
  std::map<std::string, std::set<std::string>> found;
  std::set<io::AttentionWindow> windows;
  module.walk([&](Operation *op) {
    TypeSwitch<Operation *>(op)
        .Case<graph::AttentionOp>([&](auto attention) {
          found["heads"].insert(headsOf(attention));
          const int64_t keys = graph::shapeOf(attention.getKey())[1];
          if (attention.getCausal())
            windows.insert({keys, std::min<int64_t>(attention.getWindow().value_or(keys), keys)});
        })
        .Case<graph::DispatchOp>([&](auto dispatch) {
          if (auto each = graph::choicesOfToken(dispatch.getChoices()))
            found["experts of a token"].insert(std::to_string(*each) + " of " +
                                               std::to_string(dispatch.getExperts()));
        })
        .Case<graph::ActivationOp>([&](auto activation) {
          found["activations"].insert(graph::stringifyActivation(activation.getKind()).str());
        });
    if (auto eps = op->getAttrOfType<FloatAttr>("eps")) // of any norm
      found["norms' eps"].insert(io::numbersText({eps.getValueAsDouble()}));
  });
  if (train.adapters.rank > 0)
    found["adapters"].insert("alpha " + io::numbersText({train.adapters.alpha}));
  std::map<std::string, std::string> traits;
  if (!windows.empty())
    traits[io::kWindowsTrait] = io::textOf(windows);
  addAttention(module, traits);
  for (const auto &[name, values] : found)
    for (const std::string &value : values)
      traits[name] += (traits[name].empty() ? "" : "; ") + value;
  return traits;
}

/// Null for types that constants aren't of.
static DenseElementsAttr elementsOf(const Weight &weight, MLIRContext *context) {
  static const std::map<std::string, Type (*)(MLIRContext *)> types = {
      {"F64", [](MLIRContext *of) -> Type { return Float64Type::get(of); }},
      {"F32", [](MLIRContext *of) -> Type { return Float32Type::get(of); }},
      {"F16", [](MLIRContext *of) -> Type { return Float16Type::get(of); }},
      {"BF16", [](MLIRContext *of) -> Type { return BFloat16Type::get(of); }},
      {"I64", [](MLIRContext *of) -> Type { return IntegerType::get(of, 64); }},
      {"I32", [](MLIRContext *of) -> Type { return IntegerType::get(of, 32); }}};
  const char *bytes = reinterpret_cast<const char *>(weight.data);
  if (!bytes)
    return {};
  if (weight.dtype == "BOOL")
    return DenseElementsAttr::get(
        RankedTensorType::get(weight.shape, IntegerType::get(context, 1)),
        llvm::to_vector(
            llvm::map_range(ArrayRef(bytes, weight.size), [](char c) -> bool { return c; })));
  auto type = types.find(weight.dtype);
  if (type == types.end())
    return {};
  return DenseElementsAttr::getFromRawBuffer(
      RankedTensorType::get(weight.shape, type->second(context)), ArrayRef(bytes, weight.size));
}

std::map<std::string, std::string> computedTraitsOf(const import::ImportedModel &model) {
  ModuleOp module = *model.module;
  auto forward = graph::findFunction(module, graph::kForward);
  auto data = [&](StringRef name) {
    auto found = model.weights.find(name.str());
    return found == model.weights.end() ? DenseElementsAttr()
                                        : elementsOf(found->second, module.getContext());
  };
  interpreter::DrawnResults results = interpreter::drawnResults(forward, data);
  std::map<std::string, std::string> traits;
  if (!results.angles.empty())
    traits[io::kAnglesTrait] = io::anglesText(results.angles, results.inputSizes);
  if (!results.values.empty())
    traits[io::kResultsTrait] = io::resultsText(results.shapes, results.values);
  return traits;
}

} // namespace dtc::driver
