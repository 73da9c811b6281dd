// The refusal of operators that no converter is for.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace dtc::import {

struct UnsupportedOperator {
  std::string name;
  std::string place; ///< the node, or the line of the program
};

/// One line names all of them, each once, with as many places as it has room for.
/// Success without any.
llvm::LogicalResult refuse(mlir::Location file, llvm::ArrayRef<UnsupportedOperator> operators);

} // namespace dtc::import
