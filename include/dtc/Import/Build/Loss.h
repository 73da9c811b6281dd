// Losses that a model computes itself: trained with --loss output:NAME.
#pragma once

#include "dtc/Import/Build/Conversion.h"

#include <limits>
#include <optional>

namespace dtc::import {

enum class LossReduction { None, Mean, Sum };

struct ClassLoss {
  LossReduction reduction = LossReduction::Mean;
  /// The target that isn't counted; no class where nothing is ignored.
  int64_t ignore = std::numeric_limits<int64_t>::min();
  /// [classes]: how much a row of each class counts.
  std::optional<Tensor> weights;
  /// The share of the target that all classes have alike.
  double smoothing = 0;
};

/// Of scores [n, classes, ...] and targets [n, ...].
llvm::FailureOr<Tensor> crossEntropy(Conversion &node, const Tensor &scores, const Tensor &target,
                                     const ClassLoss &asked);
/// Of targets [n, classes, ...] that say how much each class has; nothing is ignored.
llvm::FailureOr<Tensor> crossEntropyOfShares(Conversion &node, const Tensor &scores,
                                             const Tensor &target, const ClassLoss &asked);
/// Of classes and log-probabilities.
llvm::FailureOr<Tensor> logLikelihood(Conversion &node, const Tensor &scores, const Tensor &target,
                                      const ClassLoss &asked);

} // namespace dtc::import
