#include "dtc/Target/CPU/CpuTarget.h"

#include "KernelPlan.h"
#include "LibraryScratch.h"

#include "dtc/Target/CPU/CodeObject.h"
#include "dtc/Target/CPU/Features.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cpu {
namespace {

/// Larger kernels gain nothing and compile slowly.
constexpr size_t kMostOps = 160;
/// DNNL_MAX_NDIMS.
constexpr size_t kMostProductDims = 12;

class CpuTarget : public target::Target {
public:
  StringRef name() const override { return "cpu"; }

  target::Processor processor() const override {
    return {"x86-64", recordedFeatures(hostProcessor().features)};
  }

  std::vector<std::string> architectures() const override { return {}; } // the machine's own

  void loadDialects(MLIRContext &context) const override {
    context.loadDialect<LLVM::LLVMDialect, scf::SCFDialect>();
  }

  bool staysWhole(Operation *) const override { return false; }
  bool multiplies(Type half) const override { return cpu::multiplies(half); }
  bool hasWideConvolutions() const override { return true; }
  bool hasUnevenPadding() const override { return true; }
  bool accumulatesConvolutions() const override { return false; }
  int64_t attentionAlignment() const override { return 0; }
  sharding::AttentionWorkspace attentionWorkspace(Operation *) const override { return {}; }
  target::MatmulLimits matmulLimits() const override { return {kMostProductDims}; }
  target::KernelLimits kernelLimits() const override { return {kMostOps}; }

  FailureOr<target::KernelShape> planKernel(Block &body) const override {
    FailureOr<KernelPlan> plan = cpu::planKernel(body);
    if (failed(plan))
      return failure();
    return target::KernelShape{plan->extent, plan->scratchBytes, plan->inPlace};
  }

  LogicalResult checkElementTypes(ModuleOp module) const override {
    return checkLibraryTypes(module);
  }

  std::unique_ptr<target::Workspace> workspace(ModuleOp module, int64_t threads) const override {
    return std::make_unique<LibraryScratch>(module, threads);
  }

  std::unique_ptr<target::KernelCompilation>
  kernelCompilation(MLIRContext &context, const target::CodeOptions &) const override {
    return std::make_unique<KernelCompilation>(context, CompileOptions());
  }
};

} // namespace

const target::Target &cpuTarget() {
  static const CpuTarget target;
  return target;
}

} // namespace dtc::cpu
