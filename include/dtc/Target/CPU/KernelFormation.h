// From layers to kernels, function by function; the passes of the same names do the same for all
// functions of a module.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <memory>

namespace dtc::cpu {

class Outliner;

/// Replaces the layer and optimizer ops of a function by primitive ones.
mlir::LogicalResult decomposeLayers(mlir::func::FuncOp function);

/// Groups primitive ops into kernels, which all functions of a module share:
///
///     cpu::KernelFormation formation(module, [&](exec::KernelOp kernel) {
///       return compilation.add(kernel); // others compile it while further ones are formed
///     });
///     formation.form(update);
///     formation.form(lossAndGrads);
class KernelFormation {
public:
  /// Told of each new kernel once it has its name and a place in the module.
  using Formed = std::function<mlir::LogicalResult(exec::KernelOp)>;

  explicit KernelFormation(mlir::ModuleOp module, Formed formed = {});
  ~KernelFormation();

  /// The function's layers must have been decomposed.
  mlir::LogicalResult form(mlir::func::FuncOp function);

private:
  std::unique_ptr<Outliner> outliner;
};

} // namespace dtc::cpu
