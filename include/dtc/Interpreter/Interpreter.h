// The reference interpreter: what a program means, in plain loops.
//
// It is the oracle for folds, gradients, partitioning and generated code, and
// so does everything the simplest way. Layer and optimizer ops mean what their
// decomposition means. Errors are diagnostics at the op concerned.
//
// All ranks of a mesh are evaluated together in one thread, op by op, each rank in turn. A
// collective sees the operands of all ranks at once. So a program cannot deadlock here, and results
// do not depend on any order.
#pragma once

#include "dtc/Interpreter/Tensor.h"
#include "dtc/Sharding/TensorSharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::interpreter {

using Tensors = std::vector<Tensor>;

/// Results of `func` for `inputs`; functions it calls are looked up beside it.
mlir::FailureOr<Tensors> evaluate(mlir::func::FuncOp func, const Tensors &inputs,
                                  Numerics numerics = Numerics::ProgramTypes);

/// Results of one op for its operands.
mlir::FailureOr<Tensors> evaluate(mlir::Operation *op, const Tensors &operands,
                                  Numerics numerics = Numerics::ProgramTypes);

/// Whether an op of the `dtc` dialect has a kernel or a decomposition, by which it is evaluated.
bool isInterpreted(mlir::OperationName op);

/// Results of every rank of `mesh` for its inputs: `func` has local shapes and
/// may contain `dist` collectives.
mlir::FailureOr<std::vector<Tensors>> evaluateRanks(mlir::func::FuncOp func,
                                                    const sharding::Mesh &mesh,
                                                    const std::vector<Tensors> &inputs,
                                                    Numerics numerics = Numerics::ProgramTypes);

/// The shard of every rank. Of a tensor that shall be partial the first rank
/// along the partial axes gets the elements, the others the neutral element.
/// `sharding` must fit the tensor (TensorSharding::check).
Tensors shard(const Tensor &tensor, const sharding::TensorSharding &sharding,
              const sharding::Mesh &mesh);

/// The global tensor of `type` from the shards: partial axes are reduced. Null
/// when shards differ among ranks that should hold copies by more than
/// `tolerance` (see maxDifference).
std::optional<Tensor> unshard(const Tensors &shards, const sharding::TensorSharding &sharding,
                              const sharding::Mesh &mesh, mlir::RankedTensorType type,
                              double tolerance = 0);

} // namespace dtc::interpreter
