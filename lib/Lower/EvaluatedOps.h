// Which ops an evaluation needs: those of which the loss, the counts and the outputs are computed.
//
//   @loss_and_grads, one microbatch       needed
//     h  = x * w                          yes
//     l  = loss + nll(h)                  yes
//     dw = grad + x^T * dnll(h)           no
//
// Of a pipeline's ranks none sees what others need. So all messages of activations are needed, and
// none of gradients: the loss is computed forward. The replay finds out where that weren't so
// (dtc/Replay/ReplayPrograms.h).
#pragma once

#include "Homes.h"

#include "llvm/ADT/DenseSet.h"

namespace dtc::lower {

class EvaluatedOps {
public:
  EvaluatedOps(mlir::ModuleOp module, const HomeTable &homes);
  bool contains(mlir::Operation *op) const { return needed.contains(op); }

private:
  void findCalled(mlir::ModuleOp module);
  void needResults(mlir::func::FuncOp function);
  void need(mlir::Value value);

  const HomeTable &homes;
  llvm::SmallVector<mlir::func::FuncOp> called; ///< in front of the update
  llvm::BitVector wanted;                       ///< homes
  llvm::DenseSet<mlir::Operation *> needed;
  bool isComplete = false; ///< no home was added since all functions were looked at
};

} // namespace dtc::lower
