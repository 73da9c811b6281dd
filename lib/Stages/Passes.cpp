#include "dtc/Stages/Passes.h"

#include "dtc/Stages/Stages.h"

#include "dtc/Dialect/Exec/Exec.h"

using namespace mlir;

namespace dtc::stages {
#define GEN_PASS_DEF_CUTSTAGES
#define GEN_PASS_DEF_SPLITPASSES
#include "dtc/Stages/Passes.h.inc"

namespace {

struct CutStagesPass : impl::CutStagesBase<CutStagesPass> {
  void runOnOperation() override {
    if (failed(cutStages(getOperation())))
      signalPassFailure();
  }
};

struct SplitPassesPass : impl::SplitPassesBase<SplitPassesPass> {
  using SplitPassesBase::SplitPassesBase;
  void runOnOperation() override {
    for (ModuleOp rank : rankModules(getOperation())) {
      divideMessages(rank);
      if (failed(splitPasses(rank, splitBackward)))
        return signalPassFailure();
    }
  }
};

} // namespace

} // namespace dtc::stages
