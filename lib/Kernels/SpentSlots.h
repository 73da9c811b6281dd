// Which operand of a kernel a result overwrites, where a slot has kept one of them.
//
// A slot has its place for the whole step. What is written over a value that it has kept takes no
// memory, and a temporary that could be overwritten instead becomes free. Of
//
//     %g = exec.matmul %dy, %v            a temporary
//     %s = arith.mulf %g, %kept           %kept is of a slot, and nothing reads it again
//
// %s lies in the slot, and the place of %g is free behind the kernel.
#pragma once

#include "Clusters.h"

namespace dtc::kernels {

class SpentSlots {
public:
  /// `steps`: of the function, as Clustering::order gives them.
  SpentSlots(const Clustering &clustering, llvm::ArrayRef<Clustering::Step> steps);

  /// Adds to `replaces` (findReplaced) the operands that the results of a cluster should overwrite
  /// rather than others.
  void prefer(int cluster, llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Value> outputs,
              llvm::SmallVector<int64_t> &replaces) const;

private:
  /// Whether nothing behind a step reads the value.
  bool isReadLastBy(size_t step, mlir::Value value) const;

  const Clustering &clustering;
  llvm::DenseMap<mlir::Operation *, size_t> stepOfOp;
  llvm::DenseMap<int, size_t> stepOfCluster;
};

} // namespace dtc::kernels
