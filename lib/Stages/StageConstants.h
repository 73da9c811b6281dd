// What a stage makes of numbers and buffers alone: positions, tables of angles, masks and the like.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "llvm/ADT/DenseMap.h"

namespace dtc::stages {

/// Each pass of a stage makes these again. A buffer that the step replaces is no constant: a later
/// pass finds another value there.
class StageConstants {
public:
  explicit StageConstants(mlir::func::FuncOp stage);
  bool contains(mlir::Value value);
  bool contains(mlir::Operation *op);
  bool isReplaced(mlir::Value value);

private:
  mlir::func::FuncOp stage;
  llvm::DenseSet<mlir::Attribute> replaced; ///< roles of buffers
  llvm::DenseMap<mlir::Operation *, bool> known;
};

} // namespace dtc::stages
