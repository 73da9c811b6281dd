// The flags that say something of one input or weight of a model: NAME=VALUE.
#include "CommandLine.h"

#include <algorithm>

namespace dtc::driver {

using plan::Error;

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t end; (end = text.find(separator, start)) != std::string::npos; start = end + 1)
    parts.push_back(text.substr(start, end - start));
  parts.push_back(text.substr(start));
  return parts;
}

std::optional<Error> parseShape(const std::string &text, import::ImportOptions &options) {
  auto bad = [&] { return usage("--shape: expected INPUT=DxDx...[xTYPE], got '" + text + "'"); };
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return bad();
  import::InputShape shape;
  auto parts = split(text.substr(equals + 1), 'x');
  static const std::vector<std::string> types = {"f64", "f32", "bf16", "f16",
                                                 "i64", "i32", "i8",   "i1"};
  if (!parts.empty() && std::find(types.begin(), types.end(), parts.back()) != types.end()) {
    shape.type = parts.back();
    parts.pop_back();
  }
  for (auto &part : parts) {
    auto size = plan::toInteger(part);
    if (!size || *size <= 0)
      return bad();
    shape.dims.push_back(*size);
  }
  options.shapes[text.substr(0, equals)] = shape;
  return std::nullopt;
}

std::optional<Error> parsePaddingRow(const std::string &text, import::ImportOptions &options) {
  size_t equals = text.rfind('=');
  auto row = equals == std::string::npos ? std::nullopt : plan::toInteger(text.substr(equals + 1));
  if (!row || equals == 0)
    return usage("--padding-idx: expected WEIGHT=ROW, got '" + text + "'");
  options.paddingRows[text.substr(0, equals)] = *row;
  return std::nullopt;
}

std::optional<Error> parseBatchDim(const std::string &text, import::ImportOptions &options) {
  size_t equals = text.rfind('=');
  std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  auto dim = plan::toInteger(value);
  if (equals == 0 || (value != "none" && (!dim || *dim < 0)))
    return usage("--batch-dim: expected INPUT=AXIS or INPUT=none, got '" + text + "'");
  options.batchDims[text.substr(0, equals)] = value == "none" ? import::BatchDim() : dim;
  return std::nullopt;
}

} // namespace dtc::driver
