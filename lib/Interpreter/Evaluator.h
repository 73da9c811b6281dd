// Evaluates a function on all ranks of a mesh at once (one rank without a mesh).
#pragma once

#include "Decompositions.h"
#include "Kernels.h"

#include "dtc/Interpreter/Interpreter.h"

namespace dtc::interpreter {

using TensorRef = std::shared_ptr<const Tensor>;
/// A value: one tensor a rank. Ranks that hold the same share it.
using RankTensors = llvm::SmallVector<TensorRef, 1>;

/// Is told of the values that are computed.
using Observer = std::function<void(mlir::Value, const Tensor &)>;

class Evaluator {
public:
  Evaluator(Numerics numerics, const sharding::Mesh *mesh, Decompositions &decompositions,
            Observer observer = {})
      : numerics(numerics), mesh(mesh), numRanks(mesh ? mesh->devices() : 1),
        decompositions(decompositions), observer(std::move(observer)) {}

  mlir::FailureOr<std::vector<RankTensors>> call(mlir::func::FuncOp func,
                                                 llvm::ArrayRef<RankTensors> arguments);
  mlir::FailureOr<std::vector<RankTensors>> evaluate(mlir::Operation *op,
                                                     llvm::ArrayRef<RankTensors> operands);
  int64_t ranks() const { return numRanks; }

private:
  using Results = mlir::FailureOr<std::vector<RankTensors>>;

  Results evaluateBlock(mlir::Block &block, llvm::ArrayRef<RankTensors> arguments);
  Results evaluateCall(mlir::func::CallOp op, llvm::ArrayRef<RankTensors> operands);
  Results evaluateDecomposed(DecomposableOpInterface op, llvm::ArrayRef<RankTensors> operands);
  Results evaluateLocal(mlir::Operation *op, llvm::ArrayRef<RankTensors> operands);

  Numerics numerics;
  const sharding::Mesh *mesh;
  int64_t numRanks;
  Decompositions &decompositions;
  Observer observer; ///< of the first rank
  int depth = 0;     ///< of calls
};

/// As in Interpreter.h, for those who evaluate functions of like ops.
mlir::FailureOr<Tensors> evaluate(mlir::func::FuncOp func, const Tensors &inputs, Numerics numerics,
                                  Decompositions &decompositions, Observer observer);
mlir::FailureOr<std::vector<Tensors>> evaluateRanks(mlir::func::FuncOp func,
                                                    const sharding::Mesh &mesh,
                                                    const std::vector<Tensors> &inputs,
                                                    Numerics numerics,
                                                    Decompositions &decompositions);

/// Products that an op of many visits; 0 for others (StepEstimate.cpp).
double productsOf(mlir::Operation *op);
/// True for the collectives and rank queries of the `dist` dialect.
bool isCollective(mlir::Operation *op);
/// The op's result of this number on every rank of `mesh`; not yet rounded.
mlir::FailureOr<std::vector<Tensor>> evaluateCollective(mlir::Operation *op,
                                                        const sharding::Mesh &mesh,
                                                        llvm::ArrayRef<Operands> operands,
                                                        unsigned result);

} // namespace dtc::interpreter
