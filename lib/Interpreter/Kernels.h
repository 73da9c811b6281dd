// What each primitive op computes. Kernels trust the verifiers; they fail, with
// a diagnostic, only on values. Results are not yet rounded to their type.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Interpreter/Tensor.h"

#include "llvm/ADT/StringMap.h"

#include <functional>

namespace dtc::interpreter {

using Operands = llvm::ArrayRef<const Tensor *>;
using Strides = llvm::SmallVector<int64_t, 6>;

mlir::FailureOr<Tensor> evaluateElementwise(mlir::Operation *op, Operands operands);

/// The kernels of primitive ops, by name.
class KernelTable {
public:
  using Kernel = std::function<Tensor(mlir::Operation *, Operands)>;

  template <typename Op> void add(Tensor (*evaluate)(Op, Operands)) {
    kernels[Op::getOperationName()] = [evaluate](mlir::Operation *op, Operands operands) {
      return evaluate(mlir::cast<Op>(op), operands);
    };
  }
  /// Null where the op has none.
  const Kernel *find(llvm::StringRef op) const {
    auto found = kernels.find(op);
    return found == kernels.end() ? nullptr : &found->second;
  }

private:
  llvm::StringMap<Kernel> kernels;
};

/// All of them; each file of kernels adds its own.
const KernelTable &kernels();
void addShapeKernels(KernelTable &table);
void addReduceKernels(KernelTable &table);
void addIndexKernels(KernelTable &table);
void addVisionKernels(KernelTable &table);
void addRandomKernels(KernelTable &table);

//===-- what kernels are built of -----------------------------------------===//

/// Row-major strides.
Strides stridesOf(llvm::ArrayRef<int64_t> shape);
int64_t productOf(llvm::ArrayRef<int64_t> shape);

/// Calls `visit(first, second)` for every index of `shape` in row-major order
/// with two positions, each the sum of index times stride plus its start.
template <typename Visit>
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> firstStrides,
                  llvm::ArrayRef<int64_t> secondStrides, Visit visit, int64_t first = 0,
                  int64_t second = 0) {
  if (productOf(shape) == 0)
    return;
  int64_t rank = shape.size();
  if (rank == 0)
    return visit(first, second);
  Strides index(rank, 0);
  int64_t inner = shape.back(), step = firstStrides.back(), otherStep = secondStrides.back();
  while (true) {
    for (int64_t i = 0; i < inner; ++i)
      visit(first + i * step, second + i * otherStep);
    int64_t dim = rank - 2;
    for (; dim >= 0; --dim) {
      first += firstStrides[dim];
      second += secondStrides[dim];
      if (++index[dim] < shape[dim])
        break;
      first -= firstStrides[dim] * shape[dim];
      second -= secondStrides[dim] * shape[dim];
      index[dim] = 0;
    }
    if (dim < 0)
      return;
  }
}

/// One step of a reduction, and what it starts from. Integers wrap; NaN stays.
double combine(graph::ReduceKind kind, double a, double b);
int64_t combine(graph::ReduceKind kind, int64_t a, int64_t b);
/// Sets every element to the start of a reduction.
void fillNeutral(graph::ReduceKind kind, Tensor &tensor);

/// Calls `act` with the vectors of elements of `result` and of `operands`, of
/// one element type.
template <typename Act, typename... Inputs>
void onElements(Act act, Tensor &result, const Inputs &...operands) {
  if (result.isFloat())
    act(result.floats, operands.floats...);
  else
    act(result.ints, operands.ints...);
}

} // namespace dtc::interpreter
