#include "dtc/Partition/Passes.h"

#include "dtc/Partition/Partition.h"

#include "dtc/Dialect/Dist/Dist.h"

using namespace mlir;

namespace dtc::partition {

namespace {
struct PartitionPass : PassWrapper<PartitionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PartitionPass)
  PartitionPass() = default;
  PartitionPass(const PartitionPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "dtc-partition"; }
  StringRef getDescription() const override {
    return "rewrites functions with shardings to the program of one rank";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<dist::DistDialect>();
  }
  void runOnOperation() override {
    PartitionOptions options;
    options.bucketBytes = bucketBytes;
    if (failed(partition(getOperation(), options)) || failed(verifyPartition(getOperation())))
      signalPassFailure();
  }

  Option<int64_t> bucketBytes{*this, "bucket-bytes",
                              llvm::cl::init(PartitionOptions().bucketBytes),
                              llvm::cl::desc("size up to which reductions are packed")};
};

struct VerifyPartitionPass : PassWrapper<VerifyPartitionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPartitionPass)

  StringRef getArgument() const override { return "dtc-verify-partition"; }
  StringRef getDescription() const override { return "checks the contract of partitioning"; }
  void runOnOperation() override {
    if (failed(verifyPartition(getOperation())))
      signalPassFailure();
  }
};
} // namespace

void registerPartitionPasses() {
  PassRegistration<PartitionPass>();
  PassRegistration<VerifyPartitionPass>();
}

} // namespace dtc::partition
