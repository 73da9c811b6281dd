#include "Outline.h"
#include "Simplify.h"
#include "Updates.h"

#include "dtc/Target/CPU/KernelFormation.h"
#include "dtc/Target/CPU/Passes.h"

using namespace mlir;

namespace dtc::cpu {
#define GEN_PASS_DEF_DECOMPOSELAYERS
#define GEN_PASS_DEF_FORMKERNELS
#include "dtc/Target/CPU/Passes.h.inc"

/// Decomposes until nothing is left to decompose but updates that are outlined alone.
static LogicalResult decomposeAll(func::FuncOp func) {
  SmallVector<DecomposableOpInterface> open;
  while (true) {
    open.clear();
    func.walk([&](DecomposableOpInterface op) {
      if (!standsAlone(op))
        open.push_back(op);
    });
    if (open.empty())
      return success();
    for (DecomposableOpInterface op : open) {
      OpBuilder builder(op);
      auto results = op.decompose(builder);
      if (failed(results))
        return op.emitOpError("cannot be decomposed for the CPU target");
      op->replaceAllUsesWith(*results);
      op->erase();
    }
  }
}

static LogicalResult checkOneBlock(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return func.emitError("has control flow, which the CPU target cannot lower");
  return success();
}

LogicalResult decomposeLayers(func::FuncOp function) {
  return failure(failed(checkOneBlock(function)) || failed(decomposeAll(function)) ||
                 failed(simplify(function)));
}

KernelFormation::KernelFormation(ModuleOp module, Formed formed)
    : outliner(std::make_unique<Outliner>(module, std::move(formed))) {
  // A kernel is planned by emitting its loops.
  module.getContext()->loadDialect<exec::ExecDialect, LLVM::LLVMDialect, scf::SCFDialect>();
}
KernelFormation::~KernelFormation() = default;

LogicalResult KernelFormation::form(func::FuncOp function) {
  return failure(failed(checkOneBlock(function)) || failed(outliner->outline(function)));
}

namespace {

struct DecomposeLayersPass : impl::DecomposeLayersBase<DecomposeLayersPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(decomposeLayers(function)))
        return signalPassFailure();
  }
};

struct FormKernelsPass : impl::FormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    KernelFormation formation(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(formation.form(function)))
        return signalPassFailure();
  }
};

} // namespace

} // namespace dtc::cpu
