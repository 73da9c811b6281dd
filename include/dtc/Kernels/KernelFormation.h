// From layers to kernels, for any target.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>
#include <memory>

namespace dtc::kernels {

class Outliner;

/// Replaces the layer and optimizer ops of a function by primitive ones, but for those that the
/// target keeps whole.
mlir::LogicalResult decomposeLayers(mlir::func::FuncOp function, const target::Target &target);

/// Groups primitive ops into kernels, which all functions share:
///
///     kernels::KernelFormation formation(target, [&](exec::KernelOp kernel) {
///       return compilation.add(kernel); // others compile it while further ones are formed
///     });
///     formation.form(update);
///     formation.form(lossAndGrads);
class KernelFormation {
public:
  /// Told of each new kernel once it has its name and a place in the module.
  using Formed = std::function<mlir::LogicalResult(exec::KernelOp)>;

  explicit KernelFormation(const target::Target &target, Formed formed = {});
  ~KernelFormation();

  /// Makes kernels for the totals of many tensors, such as the norm of all gradients, where the
  /// target has such kernels. Before layers are decomposed, as then the totals of large tensors are
  /// divided.
  mlir::LogicalResult formTotals(mlir::func::FuncOp function);
  /// The function's layers must have been decomposed.
  mlir::LogicalResult form(mlir::func::FuncOp function);

private:
  std::unique_ptr<Outliner> outliner;
};

/// Brings all functions of a module, and of the modules of roles in it, to kernels, contractions to
/// matrix products. From the last function on: in a step that is the update, whose kernels are
/// formed soonest and keep other threads busy meanwhile.
mlir::LogicalResult formKernels(mlir::ModuleOp module, const target::Target &target,
                                KernelFormation::Formed formed = {});

/// Whether the target's library computes an op of the graph while it makes a product (Epilogues.h),
/// if the plan leaves both on the same shards. Planning asks this before there are kernels.
bool isPartOfProduct(mlir::Operation *op, const target::Target &target);

/// Whether the target's program has an op of half precision in another type in memory than the
/// graph says. Its library gives a convolution in the type of the operands where the graph has it
/// in f32, and a kernel widens that. Where it multiplies no such type, copies in f32 are multiplied
/// (WidenProducts.h). The gradient of a max pool is in f32, and rounded where it is read.
bool isWidened(mlir::Operation *op, const target::Target &target);

} // namespace dtc::kernels
