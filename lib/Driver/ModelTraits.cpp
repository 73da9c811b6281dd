#include "ModelTraits.h"

#include "dtc-io/AttentionWindows.h"
#include "dtc/Dialect/Graph/Graph.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace dtc::driver {

static std::string numberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", number);
  return text;
}

static std::string headsOf(graph::AttentionOp attention) {
  auto query = graph::shapeOf(attention.getQuery()), key = graph::shapeOf(attention.getKey());
  std::string text = std::to_string(query[2]) + " of " + std::to_string(query[3]);
  return query[2] == key[2] ? text : text + ", " + std::to_string(key[2]) + " of keys";
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
        .Case<graph::ActivationOp>([&](auto activation) {
          found["activations"].insert(graph::stringifyActivation(activation.getKind()).str());
        });
    if (auto eps = op->getAttrOfType<FloatAttr>("eps")) // of any norm
      found["norms' eps"].insert(numberText(eps.getValueAsDouble()));
  });
  if (train.adapters.rank > 0)
    found["adapters"].insert("alpha " + numberText(train.adapters.alpha));
  std::map<std::string, std::string> traits;
  if (!windows.empty())
    traits[io::kWindowsTrait] = io::textOf(windows);
  for (const auto &[name, values] : found)
    for (const std::string &value : values)
      traits[name] += (traits[name].empty() ? "" : "; ") + value;
  return traits;
}

} // namespace dtc::driver
