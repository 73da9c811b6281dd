#include "dtc/Target/CUDA/CudaTarget.h"

#include "KernelPlan.h"
#include "LibraryCalls.h"
#include "ProductTiles.h"
#include "Ptx.h"

#include "dtc-io/Environment.h"
#include "dtc/Target/CUDA/CodeObject.h"
#include "dtc/Target/LibraryRecords.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {
namespace {

/// Larger kernels need more registers than there are, and compile slowly.
constexpr size_t kMostOps = 160;
/// A block of a columns kernel has a warp's columns. Of its eight warps, eight for each of an
/// H100's 132 processors hide that each waits for memory.
constexpr int64_t kBusyBlocks = 1056;
/// Pointers are a kernel's parameters, of which 4 KiB are possible everywhere. Code grows with
/// pieces, and one launch for so many costs hardly anything.
constexpr int64_t kMostPieces = 48, kMostOperands = 500;

/// No other form of a product is in an artifact: where a GPU's cuBLASLt lacks one, compiling
/// without is the way out.
bool usesEpilogues() { return io::valueOf(io::Variable::CublasLtEpilogues) != "0"; }

/// cuDNN's planner has engines for parts of tensors. Where a GPU's gave other results, compiling
/// without is the way out.
bool readsParts() { return io::valueOf(io::Variable::CudnnParts) != "0"; }

/// Whether a kernel of products computes an op as it is.
bool takesGrouped(Operation *op) {
  auto grouped = dyn_cast<graph::GroupedContractOp>(op);
  std::optional<kernels::GroupedForm> form;
  if (grouped)
    form = kernels::groupedForm(grouped);
  return form && multipliesTiles(*form, getElementTypeOrSelf(grouped.getLhs()),
                                 getElementTypeOrSelf(grouped.getResult()));
}

class CudaTarget : public target::Target {
public:
  StringRef name() const override { return "cuda"; }

  target::Processor processor() const override { return {"cuda", {kOldestArchitecture}}; }

  void loadDialects(MLIRContext &context) const override {
    context.loadDialect<LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect>();
  }

  bool staysWhole(Operation *op) const override {
    return takesAttention(op) || isa<graph::ContractOp>(op) || target::isConv(op) ||
           takesGrouped(op);
  }
  bool multiplies(Type) const override { return true; }
  bool hasWideConvolutions() const override { return false; }
  bool hasUnevenPadding() const override { return false; }
  bool accumulatesConvolutions() const override { return true; }
  int64_t attentionAlignment() const override { return readsParts() ? kAttentionAlignment : 0; }
  sharding::AttentionWorkspace attentionWorkspace(Operation *op) const override {
    return cuda::attentionWorkspace(op);
  }
  target::MatmulLimits matmulLimits() const override {
    return {kMostProductDims, usesEpilogues(), /*accumulates=*/true};
  }
  target::KernelLimits kernelLimits() const override {
    return {kMostOps,
            /*anyExtent=*/false,
            kBusyBlocks * kWarp,
            kMostPieces,
            kMostOperands,
            /*bucketsIndices=*/true};
  }

  FailureOr<target::KernelShape> planKernel(Block &body) const override {
    FailureOr<KernelPlan> plan = cuda::planKernel(body);
    if (failed(plan))
      return failure();
    MLIRContext *context = body.getParentOp()->getContext();
    return target::KernelShape{
        plan->items, /*scratchBytes=*/0, plan->inPlace,
        exec::GeometryAttr::get(context, plan->blocks, plan->threads, plan->sharedBytes)};
  }

  LogicalResult checkElementTypes(ModuleOp module) const override {
    return checkLibraryCalls(module);
  }

  std::unique_ptr<target::Workspace> workspace(ModuleOp, int64_t) const override {
    return std::make_unique<LibraryWorkspace>();
  }

  std::vector<std::string> architectures() const override {
    return {kOldestArchitecture, "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"};
  }

  std::unique_ptr<target::KernelCompilation>
  kernelCompilation(MLIRContext &context, const target::CodeOptions &options) const override {
    CompileOptions own;
    own.architectures = options.architectures;
    if (own.architectures.empty())
      own.architectures = {kOldestArchitecture, "sm_90", "sm_100"};
    return std::make_unique<KernelCompilation>(context, own);
  }
};

} // namespace

const target::Target &cudaTarget() {
  static const CudaTarget target;
  return target;
}

} // namespace dtc::cuda
