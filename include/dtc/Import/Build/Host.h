// Tensors whose elements are known while importing.
//
// Exports compute shapes, positions and masks by ordinary ops on constants. These are evaluated
// here as long as they are small. A dimension along which all elements are equal is stored once.
// Expanding a [32,32] mask to [8,1,32,32] stores 32*32 elements, so nothing depends on the batch
// size that need not. What would take more than 1 MiB becomes ops of the graph instead.
#pragma once

#include "dtc/Raise/Shape.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc {
struct Weight;
}

namespace dtc::import {

using namespace raise;

/// The most bytes that a tensor of the file may take to be computed with while importing.
inline constexpr int64_t kConstantLimit = 1 << 20;

class HostTensor;
using Host = std::shared_ptr<const HostTensor>;

class HostTensor {
public:
  HostTensor(mlir::Type element, Shape shape, Shape stored);

  static Host splat(mlir::Type element, Shape shape, double value);
  static Host ofInts(mlir::Type element, Shape shape, std::vector<int64_t> values);
  /// The elements of a weight; null when it is larger than the limit.
  static Host ofWeight(mlir::Type element, const Weight &weight);

  mlir::Type element;
  Shape shape;
  Shape stored;              ///< per dimension the size, or 1 where all elements are equal along it
  std::vector<int64_t> ints; ///< integers and booleans
  std::vector<double> floats; ///< floats, rounded to the element type

  bool isFloat() const { return mlir::isa<mlir::FloatType>(element); }
  int64_t numStored() const;
  bool isSplat() const { return numStored() == 1; }
  int64_t size() const;
  int64_t bytes() const { return 8 * numStored(); }
  /// Element strides of the stored data, 0 along dimensions stored once.
  Shape strides() const;
  double number(int64_t position) const { return isFloat() ? floats[position] : ints[position]; }
  /// All elements in row-major order, as integers.
  llvm::SmallVector<int64_t> intList() const;

  /// Stores dimensions once along which all elements are equal.
  void compress();
};

/// Whether so many computed elements may be held as a constant.
bool fitsConstant(mlir::Type element, llvm::ArrayRef<int64_t> shape);

/// The nearest value of the element type.
double roundTo(mlir::Type element, double value);

/// Shape of elementwise operations under ONNX's (NumPy's) broadcasting;
/// failure where sizes do not match.
llvm::FailureOr<Shape> broadcastShapes(llvm::ArrayRef<Shape> shapes);

/// `tensor` seen under a larger shape; dimensions align at the end. No copy of elements.
Host expandHost(const Host &tensor, llvm::ArrayRef<int64_t> shape);

/// A tensor of `shape` whose element at index i is that of `source` at the
/// position given by `position(i)`, an offset into the stored data. Null when it is too large.
Host rearrange(const HostTensor &source, Shape shape, Shape stored,
               llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> position);

/// Offset of an index under strides.
int64_t dot(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides);
/// "[8, 32]", for messages.
std::string listed(llvm::ArrayRef<int64_t> sizes);

/// The tensor as a value of the graph: a splat, an iota, or a constant of its
/// distinct elements, broadcast to the shape.
mlir::Value toValue(mlir::OpBuilder &builder, mlir::Location loc, const HostTensor &tensor);

} // namespace dtc::import
