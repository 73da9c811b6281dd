#include "dtc/Import/Build/FileTensor.h"

#include "dtc-io/CheckedSize.h"
#include "dtc/Import/Build/Budget.h"
#include "dtc/Import/Build/Host.h"

#include "mlir/IR/Diagnostics.h"

#include <re2/re2.h>

using namespace mlir;

namespace dtc::import {

int64_t elementBytes(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

std::string safetensorsName(Type type) {
  if (type.isBF16())
    return "BF16";
  if (isa<FloatType>(type))
    return "F" + std::to_string(type.getIntOrFloatBitWidth());
  if (type.isInteger(1))
    return "BOOL";
  return (type.isUnsignedInteger() ? "U" : "I") + std::to_string(type.getIntOrFloatBitWidth());
}

std::string describeBadShape(ArrayRef<int64_t> shape) {
  if (shape.size() > size_t(Budget::kMostDims))
    return "has more than " + std::to_string(Budget::kMostDims) +
           " dimensions: " + std::to_string(shape.size());
  if (!io::CheckedSize::product(shape).isAtMost(Budget::kMostElements))
    return "has a negative size or too many elements: " + listed(shape);
  return {};
}

static bool hasName(const FileTensor &tensor, const RE2 &pattern) {
  return RE2::PartialMatch(tensor.name, pattern) ||
         llvm::any_of(tensor.aliases,
                      [&](const std::string &alias) { return RE2::PartialMatch(alias, pattern); });
}

LogicalResult applyPatterns(Location file, const ImportOptions &options,
                            std::vector<FileTensor> &tensors) {
  for (const auto &[pattern, trains] :
       {std::pair(options.freeze, false), std::pair(options.train, true)}) {
    if (!pattern)
      continue;
    RE2 regex(*pattern, RE2::Quiet);
    if (!regex.ok())
      return emitError(file) << "bad regular expression (" << regex.error() << "): " << *pattern;
    bool matched = false;
    for (FileTensor &tensor : tensors)
      if (tensor.kind != TensorKind::Constant && isa<FloatType>(tensor.element) &&
          hasName(tensor, regex)) {
        matched = true;
        tensor.trainable = trains;
        if (trains)
          tensor.kind = TensorKind::Parameter;
      }
    if (!matched)
      return emitError(file) << "no parameter matches the regular expression: " << *pattern;
  }
  return success();
}

} // namespace dtc::import
