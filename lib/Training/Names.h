// Which weights the expressions of a command line mean.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <re2/re2.h>

namespace dtc::training {

/// Whether the expression is found in a name of the weight. A tied one has several, and which of
/// them it goes by depends on the exporter.
inline bool hasName(graph::ParameterOp parameter, const RE2 &pattern) {
  auto matches = [&](llvm::StringRef name) {
    return RE2::PartialMatch(std::string_view(name), pattern);
  };
  return matches(parameter.getSymName()) ||
         llvm::any_of(parameter.getAliases().getAsRange<mlir::StringAttr>(), matches);
}

} // namespace dtc::training
