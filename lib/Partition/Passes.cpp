#include "dtc/Partition/Passes.h"
#include "dtc/Partition/Recompute.h"

namespace dtc::partition {
#define GEN_PASS_DEF_PARTITIONMODULE
#define GEN_PASS_DEF_RECOMPUTEBLOCKS
#define GEN_PASS_DEF_VERIFYPARTITION
#include "dtc/Partition/Passes.h.inc"

namespace {

struct PartitionModule : impl::PartitionModuleBase<PartitionModule> {
  using PartitionModuleBase::PartitionModuleBase;

  void runOnOperation() override {
    if (failed(partition(getOperation(), {.bucketBytes = bucketBytes, .regather = regather})))
      signalPassFailure();
  }
};

struct RecomputeBlocks : impl::RecomputeBlocksBase<RecomputeBlocks> {
  void runOnOperation() override {
    if (failed(recompute(getOperation())))
      signalPassFailure();
  }
};

struct VerifyPartition : impl::VerifyPartitionBase<VerifyPartition> {
  void runOnOperation() override {
    if (failed(verifyPartition(getOperation())))
      signalPassFailure();
  }
};

} // namespace

} // namespace dtc::partition
