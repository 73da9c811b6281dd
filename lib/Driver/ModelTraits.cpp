#include "ModelTraits.h"

#include "dtc/Dialect/Graph/Graph.h"

#include "llvm/ADT/TypeSwitch.h"

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
  module.walk([&](Operation *op) {
    TypeSwitch<Operation *>(op)
        .Case<graph::AttentionOp>([&](auto attention) {
          found["heads"].insert(headsOf(attention));
          if (auto window = attention.getWindow())
            found["windows"].insert(std::to_string(*window) + " keys");
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
  for (const auto &[name, values] : found)
    for (const std::string &value : values)
      traits[name] += (traits[name].empty() ? "" : "; ") + value;
  return traits;
}

} // namespace dtc::driver
