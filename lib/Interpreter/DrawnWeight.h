// Weights of any size that are drawn as they are read.
//
// Element (i, j) of a matrix is a function of the tensor's name, i and j: an outer product u_i *
// v_j, and one further element or more in each row and column. So a product with a vector takes as
// many steps as the matrix has rows and columns, and one element is known without the others:
//
//   u_1 v_1 + a    u_1 v_2        u_1 v_3
//   u_2 v_1        u_2 v_2 + b    u_2 v_3
//   u_3 v_1        u_3 v_2        u_3 v_3 + c
//
// Views of a tensor have its elements in the same order, so that all views mean the same.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Interpreter/Tensor.h"

#include <optional>

namespace dtc::interpreter {

/// Uniform in [-1, 1), the same number on every machine.
double drawn(uint64_t seed, uint64_t index);
/// A seed for `name`.
uint64_t seedOf(llvm::StringRef name);

class DrawnWeight {
public:
  /// `nudge`: by how much elements are moved, relative to their size, in a direction of their own.
  DrawnWeight(llvm::StringRef name, mlir::RankedTensorType view, llvm::ArrayRef<int64_t> fileShape,
              double nudge);

  /// The element at a position of the row-major order.
  double at(int64_t position) const;
  /// The elements of a part.
  Tensor part(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> offsets,
              llvm::ArrayRef<int64_t> strides) const;
  Tensor whole() const;
  /// What is looked up, row by row of the indices.
  Tensor rowsAt(graph::GatherOp op, const Tensor &indices) const;
  /// Steps that `product` takes; nothing where it can't be made without all of the elements.
  std::optional<double> stepsOf(graph::ContractOp op, bool isLhs) const;
  /// The product with the other operand.
  Tensor product(graph::ContractOp op, bool isLhs, const Tensor &other) const;

private:
  struct Place {
    int64_t row, column;
  };
  double nudged(double value, int64_t index) const;
  double rowFactor(int64_t row) const;
  double columnFactor(int64_t column) const;
  bool hasExtra(Place place) const;
  double extra(Place place) const;
  std::vector<Place> extraPlaces() const;
  /// The dimensions of the view whose product is the number of rows; nothing where there are none.
  std::optional<size_t> rowDims() const;

  uint64_t seed;
  mlir::RankedTensorType view;
  int64_t rows = 1, columns = 1, period = 1, shift = 0; ///< extra elements repeat by the period
  double rootOfSize = 1;                                ///< of the larger one
  double nudge;
  bool isVector;
};

} // namespace dtc::interpreter
