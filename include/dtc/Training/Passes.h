// The pass of the training phase.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Training/Train.h"

#include "mlir/Pass/Pass.h"

#include <limits>

namespace dtc::training {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "dtc/Training/Passes.h.inc"

/// The pass's options that mean `options`.
BuildTrainingOptions passOptions(const TrainOptions &options);

} // namespace dtc::training
