#include "dtc-io/Environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace dtc::io {
namespace {

struct Known {
  const char *name;
  std::vector<std::string_view> values;
  const char *path = nullptr; ///< what other values name; null: there are none
};

/// In the order of Variable.
const std::array<Known, 7> &known() {
  static const std::array<Known, 7> variables = {
      Known{"DTC_COLLECTIVES", {"start", "wait", "thread"}},
      Known{"DTC_CUBLASLT_EPILOGUES", {"0", "1"}},
      Known{"DTC_CUDNN_PARTS", {"0", "1"}},
      Known{"DTC_SHARE_GPU", {"0", "1"}},
      Known{"DTC_CALIBRATION", {"off"}, "a file"},
      Known{"DTC_KERNEL_CACHE", {"off"}, "a folder"},
      Known{"DTC_CUBLASLT_CACHE", {"off"}, "a folder"}};
  return variables;
}

/// Who says this means a switch, not a path.
bool isSwitch(const std::string &value) {
  constexpr std::array<std::string_view, 8> words = {"0",  "1",    "no",    "yes",
                                                     "on", "true", "false", "none"};
  return std::ranges::find(words, value) != words.end();
}

/// "0 or 1", "start, wait or thread"
std::string expected(const Known &variable) {
  std::vector<std::string_view> parts = variable.values;
  if (variable.path)
    parts.emplace_back(variable.path);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " or " : ", ") + std::string(parts[i]);
  return text;
}

std::string valueOf(const Known &variable) {
  const char *value = std::getenv(variable.name);
  return value ? value : "";
}

} // namespace

std::string findWrongVariable() {
  for (const Known &variable : known()) {
    const std::string value = valueOf(variable);
    const bool isKnown = std::ranges::find(variable.values, value) != variable.values.end();
    if (!value.empty() && !isKnown && (!variable.path || isSwitch(value)))
      return std::string(variable.name) + ": expected " + expected(variable) + ", got '" + value +
             "'";
  }
  return "";
}

std::string valueOf(Variable variable) { return valueOf(known()[static_cast<size_t>(variable)]); }

} // namespace dtc::io
