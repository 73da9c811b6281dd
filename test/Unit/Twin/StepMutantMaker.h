// Finds the places of a partitioned step where a fault of each kind can be planted.
#pragma once

#include "StepMutants.h"

#include "dtc/Dialect/Dist/StageOps.h"

namespace dtc::twin::test {

using Plant = std::function<void(mlir::Operation *)>;

class StepMutantMaker {
public:
  explicit StepMutantMaker(mlir::ModuleOp module) : module(module) {}

  std::vector<StepMutant> run() {
    current = 0;
    for (mlir::Operation *op : numberedOps(module)) {
      if (auto function = op->getParentOfType<mlir::func::FuncOp>())
        visit(op, function);
      ++current;
    }
    return std::move(made);
  }

private:
  void add(const char *kind, mlir::Operation *op, Plant plant, const std::string &detail = "",
           bool isFurther = false) {
    made.push_back({kind, placeOf(op, current) + detail, current, std::move(plant), isFurther});
  }

  static bool isRead(mlir::Value value) { return !value.use_empty(); }
  void visit(mlir::Operation *op, mlir::func::FuncOp function);
  void visitSums(dist::AllReduceOp op);
  void visitReaders(mlir::Operation *op);
  void visitCollective(mlir::Operation *op);
  void visitAxes(mlir::Operation *op);
  void visitGroup(dist::AllReduceOp op);
  void visitIndex(dist::AxisIndexOp op);
  void visitBucket(mlir::Operation *op);
  void visitParts(mlir::Operation *op);
  void visitPermute(dist::PermuteOp op);
  bool areTerms(llvm::StringRef first, llvm::StringRef second);
  bool othersAdd(dist::StageSumOp op, unsigned operand);
  void visitStageSum(dist::StageSumOp op);
  void visitChunks(graph::ConcatOp op);
  void visitTerms(graph::SumOp op, mlir::func::FuncOp function);
  void visitReturn(mlir::func::ReturnOp op, mlir::func::FuncOp function);
  void visitNumbers(mlir::Operation *op);
  void visitUpdate(mlir::Operation *op);
  void visitMask(mlir::Operation *op);
  void visitOperands(mlir::Operation *op);
  void visitActivation(graph::ActivationOp op);
  void swapResults(const char *kind, mlir::Operation *op, mlir::func::FuncOp function,
                   graph::RoleKind role);

  mlir::ModuleOp module;
  unsigned current = 0;
  std::vector<StepMutant> made;
};

} // namespace dtc::twin::test
