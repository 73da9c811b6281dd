// A stage of a step as a function, and functions under construction.
#pragma once

#include "StepGraph.h"

#include "mlir/IR/IRMapping.h"

namespace dtc::stages {

/// The arguments and results of a function that is being made, with their attributes.
struct Signature {
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::DictionaryAttr> attributes;
  void add(mlir::Type type, mlir::DictionaryAttr attribute);
};

/// The attributes of an argument or result, never null.
mlir::DictionaryAttr argumentAttributes(mlir::func::FuncOp function, unsigned index);
mlir::DictionaryAttr resultAttributes(mlir::func::FuncOp function, unsigned index);
/// The same of another role.
mlir::DictionaryAttr withRole(mlir::DictionaryAttr attributes, graph::RoleAttr role);

/// A function at the end of the module with an empty entry block; results are declared at the end.
mlir::func::FuncOp createFunction(mlir::ModuleOp module, llvm::StringRef name,
                                  mlir::Location location, const Signature &arguments);
void finishFunction(mlir::func::FuncOp function, mlir::ValueRange values,
                    llvm::ArrayRef<mlir::DictionaryAttr> attributes);

/// The same step as each mesh has it, and which of them each stage has.
struct StepOnMeshes {
  std::vector<StepGraph> steps;
  std::vector<int> meshOfStage;
  const StepGraph &ofStage(int stage) const { return steps[meshOfStage[stage]]; }
};

/// Makes the function of a stage in the module of its rank.
mlir::LogicalResult buildStage(const StepOnMeshes &whole, int stage, mlir::ModuleOp rank);

} // namespace dtc::stages
