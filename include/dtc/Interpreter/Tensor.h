// Host tensors of the reference interpreter.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <vector>

namespace dtc::interpreter {

/// In what floats are kept between ops. ProgramTypes: computed in double and
/// rounded to the op's element type. Double: never rounded, whatever the type
/// says; for gradients against finite differences.
enum class Numerics : uint8_t { ProgramTypes, Double };

/// A tensor of f16, bf16, f32, f64 or integers up to 64 bits, row-major. One of
/// the vectors is used, by element type. Integers are sign-extended, except
/// for i1, which is 0 or 1.
struct Tensor {
  mlir::RankedTensorType type;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  /// Zeros of `type`, which `isSupported`.
  explicit Tensor(mlir::RankedTensorType type);
  static bool isSupported(mlir::Type type);

  bool isFloat() const { return mlir::isa<mlir::FloatType>(type.getElementType()); }
  llvm::ArrayRef<int64_t> shape() const { return type.getShape(); }
  int64_t size() const { return type.getNumElements(); }
  int64_t rank() const { return type.getRank(); }
};

/// The elements of a constant. Fails without a diagnostic for types and forms
/// of constants that are not supported.
mlir::FailureOr<Tensor> toTensor(mlir::ElementsAttr attr);
/// As a constant, rounded to its type.
mlir::DenseElementsAttr toAttr(const Tensor &tensor);

/// Rounds to the element type: floats to nearest even, integers by wrapping.
void roundToType(Tensor &tensor);

/// Floats uniform in [-1, 1) rounded to the type, integers in [0, intBound),
/// i1 0 or 1; the same numbers on every machine.
Tensor randomTensor(mlir::RankedTensorType type, uint64_t seed, int64_t intBound);

/// The largest difference of two tensors of the same shape, each element's
/// difference divided by max(1, |expected|). Equal infinities and NaNs do not
/// differ; unequal ones differ by infinity.
double maxDifference(const Tensor &actual, const Tensor &expected);

/// Nested brackets, floats with six significant digits.
void print(llvm::raw_ostream &os, const Tensor &tensor);

} // namespace dtc::interpreter
