// When two places compute the same, so that one kernel serves both.
#pragma once

#include "Clusters.h"

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::kernels {

/// What a kernel computes, as text: equal for kernels that differ in names and
/// locations only, or, if flat, in the number of elements.
std::string structure(exec::KernelOp kernel, bool flat);

/// What ops compute, as the identities of their types, attributes and operands: equal for
/// ops that would become the same kernel with the same shapes.
std::vector<uintptr_t> identityOf(llvm::ArrayRef<mlir::Operation *> ops,
                                  llvm::ArrayRef<mlir::Value> inputs,
                                  llvm::ArrayRef<mlir::Value> outputs,
                                  llvm::ArrayRef<int64_t> replaces);

/// Ops in the order in which the outputs ask for them, whatever the program's: equal
/// clusters become equal kernels.
llvm::SmallVector<mlir::Operation *> canonicalOrder(const OpSet &ops,
                                                    llvm::ArrayRef<mlir::Value> outputs);

/// The role of what a value is returned as, and of the argument that it is; null when it is
/// neither. Reshapes don't matter.
graph::RoleAttr returnedRole(mlir::Value value);
graph::RoleAttr argumentRole(mlir::Value value);

/// For each output, the input that it is the new value of, or -1; empty when
/// there is none.
llvm::SmallVector<int64_t> findReplaced(llvm::ArrayRef<mlir::Value> inputs,
                                        llvm::ArrayRef<mlir::Value> outputs);

} // namespace dtc::kernels
