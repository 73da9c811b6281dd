#include "dtc/Import/Build/UnsupportedOperators.h"

#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dtc::import {

using Places = llvm::MapVector<StringRef, llvm::SmallSetVector<StringRef, 4>>;

/// "Tripled (first, second and 3 more), Fused (last)", of each the first places.
static std::string listed(const Places &operators, size_t most) {
  std::string text;
  for (const auto &[name, places] : operators) {
    text += (text.empty() ? "" : ", ") + name.str();
    if (most == 0)
      continue;
    text += " (";
    const size_t shown = std::min(most, places.size());
    for (size_t i = 0; i < shown; ++i)
      text += (i > 0 ? ", " : "") + places[i].str();
    if (shown < places.size())
      text += " and " + std::to_string(places.size() - shown) + " more";
    text += ")";
  }
  return text;
}

/// Where operators come from that a model doesn't have as it is exported, and what to do.
static StringRef wayOut(const Places &operators) {
  auto any = [&](auto holds) {
    return llvm::any_of(operators, [&](const auto &each) { return holds(each.first); });
  };
  if (any([](StringRef name) {
        return name.contains("Quantize") || name.ends_with("Integer") || name.contains("QLinear");
      }))
    return "; the model is quantized: give the one from before it was";
  if (any([](StringRef name) { return name.starts_with("com.microsoft."); }))
    return "; ONNX Runtime's optimizer writes those of com.microsoft: give the model from before "
           "it";
  if (any([](StringRef name) { return name.contains("grouped_mm"); }))
    return "; experts of transformers are read with experts_implementation=\"batched_mm\" in the "
           "model's configuration";
  return "";
}

LogicalResult refuse(Location file, ArrayRef<UnsupportedOperator> operators) {
  if (operators.empty())
    return success();
  Places places;
  for (const UnsupportedOperator &each : operators)
    places[each.name].insert(each.place);
  // A message is one line, of which the middle is left out where it is longer than 800 bytes.
  constexpr size_t kMost = 700;
  std::string text;
  for (size_t shown : {8, 4, 2, 1, 0}) {
    text = listed(places, shown);
    if (text.size() <= kMost)
      break;
  }
  return unsupported(emitError(file)) << "unsupported operators: " << text << wayOut(places);
}

} // namespace dtc::import
