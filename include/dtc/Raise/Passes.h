// Passes that bring an imported graph into the form the other phases expect.
//
// An importer writes what its file says with plain ops (Raise/Emit.h) into `@forward` of a module
// and then runs the pipeline. Nothing here knows what kind of file it was.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/Pass/PassManager.h"

namespace dtc::raise {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Raise/Passes.h.inc"

/// What every importer runs on the graph it has built: `--dtc-pipeline="raise batch=N"`. A batch of
/// 0 leaves it as it is.
void buildRaisePipeline(mlir::OpPassManager &passes, const RebatchOptions &rebatch);

} // namespace dtc::raise
