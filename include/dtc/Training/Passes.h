// Passes over the training phase, for dtc-opt.
#pragma once

namespace dtc::training {

/// `--dtc-train`: buildTraining with its options.
void registerTrainingPasses();

} // namespace dtc::training
