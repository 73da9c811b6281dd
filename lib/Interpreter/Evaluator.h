// Evaluates a function on all ranks of a mesh at once (one rank without a mesh).
#pragma once

#include "Kernels.h"

#include "dtc/Interpreter/Interpreter.h"

namespace dtc::interpreter {

using TensorRef = std::shared_ptr<const Tensor>;
/// A value: one tensor a rank. Ranks that hold the same share it.
using RankTensors = llvm::SmallVector<TensorRef, 1>;

class Evaluator {
public:
  Evaluator(Numerics numerics, const sharding::Mesh *mesh, Observer observer = {})
      : numerics(numerics), mesh(mesh), numRanks(mesh ? mesh->devices() : 1),
        observer(std::move(observer)) {}

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
  mlir::FailureOr<mlir::func::FuncOp> decomposition(DecomposableOpInterface op);

  Numerics numerics;
  const sharding::Mesh *mesh;
  int64_t numRanks;
  Observer observer; ///< of the first rank
  int depth = 0; ///< of calls
  /// By the op's name, attributes and types: ops of equal layers have one.
  llvm::DenseMap<mlir::Attribute, mlir::OwningOpRef<mlir::func::FuncOp>> decompositions;
};

/// True for the collectives and rank queries of the `dist` dialect.
bool isCollective(mlir::Operation *op);
/// The op's result of this number on every rank of `mesh`; not yet rounded.
mlir::FailureOr<std::vector<Tensor>> evaluateCollective(mlir::Operation *op,
                                                        const sharding::Mesh &mesh,
                                                        llvm::ArrayRef<Operands> operands,
                                                        unsigned result);

} // namespace dtc::interpreter
