// What a model computes of weights and inputs that are drawn, as a sign of which model it is.
//
// Two files of one model have the same results however they are written: as ONNX or as a program of
// PyTorch, with attention as one op or as many. Models of equal weights that scale their scores
// otherwise, turn positions by other angles, or multiply by other constants have others:
//
//   input 1x4 of 8x32 below 512, output 1x4x4     -0.81 2.07 0.33 ...
//
// Inputs that have the same number of dimensions and limits are told apart by their names, and are
// "named" so.
//
// One sample is computed, and a few of its positions and features; of a causal model that is a few
// positions of each layer.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dtc::interpreter {

struct DrawnResults {
  std::string shapes;         ///< what was taken of the inputs and results
  std::vector<double> values; ///< empty: they would take too long, or depend on rounding
  /// The smallest angle that a position of an input is turned by, of each op that has one.
  std::vector<double> angles;
  std::string inputSizes; ///< but for the samples: angles may depend on them
};

/// The elements of a buffer in the file's order; null: the file lacks them.
using BufferData = std::function<mlir::DenseElementsAttr(llvm::StringRef)>;

/// Of @forward as it was imported. Whatever a model has that isn't interpreted leaves `values` or
/// all empty, without a diagnostic.
DrawnResults drawnResults(mlir::func::FuncOp forward, const BufferData &data);

} // namespace dtc::interpreter
