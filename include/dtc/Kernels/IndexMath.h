// Index arithmetic of kernels: affine expressions over loop variables whose
// ranges are known.
//
// A kernel asks for values "at an index", one expression per dimension. Ops that only move elements
// turn an index of their result into one of their operand; a load turns its index into an offset.
// Ranges let both meet again. Say that i is in [0, 8) and j in [0, 64). Then the element i * 64 + j
// of a tensor<8x64> is at [i, j]:
//
//   (i * 64 + j) floordiv 64 = i         (i * 64 + j) mod 64 = j
//
// Its offset is i * 64 + j again, however many reshapes were in between. Where `floordiv` or `mod`
// remains in a load's offset, a loop should be split.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace dtc::kernels {

using Index = llvm::SmallVector<mlir::AffineExpr, 4>;

/// low <= value < high.
struct Range {
  int64_t low = 0, high = 1;
};

class IndexMath {
public:
  explicit IndexMath(mlir::MLIRContext *context) : context(context) {}

  /// A fresh variable. `depth` is that of the loop it belongs to.
  mlir::AffineExpr newVariable(Range range, int depth);
  Range range(mlir::AffineExpr expr);
  /// The depth of the innermost loop whose variable occurs; 0 for constants.
  int depth(mlir::AffineExpr expr);
  int depth(const Index &index);
  /// The terms of a sum that belong to loops outside `depth`, and the others; null where there
  /// are none.
  std::pair<mlir::AffineExpr, mlir::AffineExpr> separate(mlir::AffineExpr expr, int depth);

  mlir::AffineExpr constant(int64_t value);
  mlir::AffineExpr add(mlir::AffineExpr a, mlir::AffineExpr b);
  mlir::AffineExpr add(mlir::AffineExpr a, int64_t b) { return add(a, constant(b)); }
  mlir::AffineExpr multiply(mlir::AffineExpr a, int64_t factor);
  mlir::AffineExpr floorDivide(mlir::AffineExpr a, int64_t divisor);
  mlir::AffineExpr modulo(mlir::AffineExpr a, int64_t divisor);

  Index delinearize(mlir::AffineExpr linear, llvm::ArrayRef<int64_t> shape);
  mlir::AffineExpr linearize(const Index &index, llvm::ArrayRef<int64_t> shape);

  /// The product of a shape.
  static int64_t numElements(llvm::ArrayRef<int64_t> shape);
  /// How far a tap of a pooling's window is from where the window begins, padding included.
  static llvm::SmallVector<int64_t> tapOffsets(int64_t tap, llvm::ArrayRef<int64_t> kernel,
                                               llvm::ArrayRef<int64_t> dilations,
                                               llvm::ArrayRef<int64_t> padLow);

  static bool hasDivision(mlir::AffineExpr expr);
  /// A place where `offset` would be affine if variable `variable` were split into (variable
  /// floordiv d, variable mod d). The result is d, or 0 if there is none.
  int64_t splitOf(mlir::AffineExpr offset, mlir::AffineExpr variable);

private:
  struct Variable {
    Range range;
    int depth;
  };
  using Terms = llvm::SmallVector<std::pair<mlir::AffineExpr, int64_t>, 4>;

  /// expr = sum of coefficient * atom + constant, atoms in order of first use.
  int64_t flatten(mlir::AffineExpr expr, int64_t factor, Terms &terms);
  void addTerm(Terms &terms, mlir::AffineExpr atom, int64_t coefficient);
  /// The multiples of `divisor`, divided by it, and the other terms.
  static std::pair<Terms, Terms> divideTerms(const Terms &terms, int64_t divisor);
  int64_t coarsen(const Terms &terms, int64_t constant, int64_t divisor,
                  mlir::AffineExpr &coarse, mlir::AffineExpr &fine);
  bool mergeQuotients(Terms &terms, int64_t &constant);
  mlir::AffineExpr rebuild(Terms terms, int64_t constant);
  Range rangeOf(const Terms &terms, int64_t constant);
  int order(mlir::AffineExpr atom);

  mlir::MLIRContext *context;
  llvm::SmallVector<Variable> variables;
  llvm::DenseMap<mlir::AffineExpr, int> atomOrder;
};

} // namespace dtc::kernels
