#include "Outline.h"
#include "Simplify.h"
#include "Updates.h"

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

/// Functions whose bodies are to run; not declarations.
static SmallVector<func::FuncOp> functionsOf(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal())
      functions.push_back(func);
  return functions;
}

namespace {

struct DecomposeLayersPass : impl::DecomposeLayersBase<DecomposeLayersPass> {
  void runOnOperation() override {
    for (func::FuncOp func : functionsOf(getOperation()))
      if (failed(checkOneBlock(func)) || failed(decomposeAll(func)) || failed(simplify(func)))
        return signalPassFailure();
  }
};

struct FormKernelsPass : impl::FormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    Outliner outliner(getOperation());
    for (func::FuncOp func : functionsOf(getOperation()))
      if (failed(checkOneBlock(func)) || failed(outliner.outline(func)))
        return signalPassFailure();
  }
};

} // namespace

} // namespace dtc::cpu
