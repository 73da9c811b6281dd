#include "Accumulation.h"
#include "AttentionBiases.h"
#include "AttentionCalls.h"
#include "EachFunction.h"
#include "Epilogues.h"
#include "GroupedProducts.h"
#include "Outline.h"
#include "Simplify.h"
#include "SumInTurn.h"
#include "Updates.h"
#include "WidenProducts.h"

#include "dtc/Kernels/KernelFormation.h"
#include "dtc/Kernels/NormalizeContractions.h"
#include "dtc/Kernels/Passes.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::kernels {
#define GEN_PASS_DEF_BATCHTOTALS
#define GEN_PASS_DEF_DECOMPOSELAYERS
#define GEN_PASS_DEF_FOLDEPILOGUES
#define GEN_PASS_DEF_FORMKERNELS
#define GEN_PASS_DEF_LAYERSTOKERNELS
#include "dtc/Kernels/Passes.h.inc"

/// Decomposes until nothing is left to decompose but updates that are outlined alone, what the
/// target keeps, and what `waits`.
static LogicalResult decomposeAll(func::FuncOp func, const target::Target &target,
                                  function_ref<bool(Operation *)> waits) {
  SmallVector<DecomposableOpInterface> open;
  while (true) {
    open.clear();
    func.walk([&](DecomposableOpInterface op) {
      if (!target.staysWhole(op) && !standsAlone(op, target) && !waits(op))
        open.push_back(op);
    });
    if (open.empty())
      return success();
    for (DecomposableOpInterface op : open) {
      OpBuilder builder(op);
      auto results = op.decompose(builder);
      if (failed(results))
        return op.emitOpError("cannot be decomposed for kernels");
      op->replaceAllUsesWith(*results);
      op->erase();
    }
  }
}

static bool isWidenedConv(Operation *op, const target::Target &target) {
  return !target.hasWideConvolutions() && target::isConv(op) &&
         getElementTypeOrSelf(op->getOperand(0)) != getElementTypeOrSelf(op->getResult(0));
}

bool isWidened(Operation *op, const target::Target &target) {
  return isWidenedConv(op, target) || multipliesCopies(op, target) ||
         (isa<graph::MaxPoolGradOp>(op) && isHalf(op->getResult(0).getType()));
}

/// Gradients of weights, which are sums, are in f32 where their operands are halves. Libraries that
/// round them give them in the type of the operands.
static void narrowConvolutions(func::FuncOp func, const target::Target &target) {
  func.walk([&](Operation *op) {
    if (!isWidenedConv(op, target))
      return;
    Value result = op->getResult(0);
    auto type = cast<RankedTensorType>(result.getType());
    Type narrow = getElementTypeOrSelf(op->getOperand(0));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    result.setType(type.clone(narrow));
    graph::TensorBuilder b(builder, op->getLoc());
    Value wide = b.convert(result, type.getElementType());
    result.replaceAllUsesExcept(wide, wide.getDefiningOp());
  });
}

static LogicalResult checkOneBlock(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return func.emitError("has control flow, which kernels cannot have");
  return success();
}

LogicalResult decomposeLayers(func::FuncOp function, const target::Target &target) {
  const bool folds = target.matmulLimits().epilogues;
  auto waits = [&](Operation *op) { return folds && mayBecomeEpilogue(op); };
  if (failed(checkOneBlock(function)))
    return failure();
  shareBiases(function, target);
  if (failed(decomposeAll(function, target, waits)))
    return failure();
  callGroupedProducts(function, target);
  narrowConvolutions(function, target);
  widenProducts(function, target);
  target::KernelLimits limits = target.kernelLimits();
  if (folds) // a sum that a product makes isn't cut in two
    limits.fewColumns = 0;
  if (failed(simplify(function, limits)))
    return failure();
  sumInTurn(function);
  return success();
}

/// The function's contractions are products by now.
static LogicalResult foldIntoProducts(func::FuncOp function, const target::Target &target) {
  const target::MatmulLimits limits = target.matmulLimits();
  if (limits.epilogues) {
    foldEpilogues(function, target);
    if (failed(decomposeAll(function, target, [](Operation *) { return false; })) ||
        failed(simplify(function, target.kernelLimits())))
      return failure();
  }
  foldAccumulation(function, target);
  return success();
}

KernelFormation::KernelFormation(const target::Target &target, Formed formed)
    : outliner(std::make_unique<Outliner>(target, std::move(formed))) {}
KernelFormation::~KernelFormation() = default;

LogicalResult KernelFormation::formTotals(func::FuncOp function) {
  return failure(failed(checkOneBlock(function)) || failed(outliner->outlineTotals(function)));
}

LogicalResult KernelFormation::form(func::FuncOp function) {
  return failure(failed(checkOneBlock(function)) || failed(outliner->outline(function)));
}

LogicalResult formKernels(ModuleOp module, const target::Target &target,
                          KernelFormation::Formed formed) {
  KernelFormation formation(target, std::move(formed));
  SmallVector<func::FuncOp> functions;
  module.walk<WalkOrder::PreOrder>([&](func::FuncOp function) {
    functions.push_back(function);
    return WalkResult::skip();
  });
  for (func::FuncOp function : llvm::reverse(functions))
    if (!function.isExternal() &&
        (failed(formation.formTotals(function)) || failed(decomposeLayers(function, target)) ||
         failed(normalizeContractions(function, target)) ||
         failed(foldIntoProducts(function, target)) || failed(callAttention(function, target)) ||
         failed(formation.form(function))))
      return failure();
  return success();
}

/// The kernels of all functions, by one of the steps of forming them.
static LogicalResult formEach(ModuleOp module,
                              LogicalResult (KernelFormation::*step)(func::FuncOp)) {
  FailureOr<const target::Target *> target = target::targetOf(module);
  if (failed(target))
    return failure();
  KernelFormation formation(**target);
  return onEachFunction(module, [&](func::FuncOp function, const target::Target &) {
    return (formation.*step)(function);
  });
}

namespace {

struct DecomposeLayersPass : impl::DecomposeLayersBase<DecomposeLayersPass> {
  void runOnOperation() override {
    if (failed(onEachFunction(getOperation(), decomposeLayers)))
      signalPassFailure();
  }
};

struct FoldEpiloguesPass : impl::FoldEpiloguesBase<FoldEpiloguesPass> {
  void runOnOperation() override {
    if (failed(onEachFunction(getOperation(), foldIntoProducts)))
      signalPassFailure();
  }
};

struct BatchTotalsPass : impl::BatchTotalsBase<BatchTotalsPass> {
  void runOnOperation() override {
    if (failed(formEach(getOperation(), &KernelFormation::formTotals)))
      signalPassFailure();
  }
};

struct FormKernelsPass : impl::FormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    if (failed(formEach(getOperation(), &KernelFormation::form)))
      signalPassFailure();
  }
};

struct LayersToKernelsPass : impl::LayersToKernelsBase<LayersToKernelsPass> {
  LayersToKernelsPass() = default;
  explicit LayersToKernelsPass(target::KernelCompilation *compilation) : compilation(compilation) {}

  void runOnOperation() override {
    KernelFormation::Formed formed;
    if (compilation)
      formed = [this](exec::KernelOp kernel) { return compilation->add(kernel); };
    FailureOr<const target::Target *> target = target::targetOf(getOperation());
    if (failed(target) || failed(formKernels(getOperation(), **target, formed)) ||
        (compilation && failed(compilation->close())))
      signalPassFailure();
  }

  target::KernelCompilation *compilation = nullptr;
};

} // namespace

std::unique_ptr<Pass> createLayersToKernels(target::KernelCompilation *compilation) {
  return std::make_unique<LayersToKernelsPass>(compilation);
}

} // namespace dtc::kernels
