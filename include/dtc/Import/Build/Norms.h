// Normalizations. Scales and biases may be null.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// A normalization's result, and the statistics of its rows with dimensions of size 1 kept.
struct Normalized {
  mlir::Value result, mean, rstd;
};

/// Over the dimensions from `axis` on.
llvm::FailureOr<Normalized> layerNorm(Conversion &node, const Tensor &input, int64_t axis,
                                      const Tensor *scale, const Tensor *bias, double epsilon);
llvm::FailureOr<Tensor> rmsNorm(Conversion &node, const Tensor &input, int64_t axis,
                                const Tensor *scale, double epsilon);

/// Statistics of groups of channels; scale and bias per channel.
llvm::FailureOr<Tensor> groupNorm(Conversion &node, const Tensor &input, int64_t groups,
                                  const Tensor *scale, const Tensor *bias, double epsilon);

/// Why batch norm is refused where it would normalize by the batch's statistics.
inline constexpr const char *kTrainingBatchNorm =
    "in training mode is not supported; in eval mode it normalizes by its running statistics, "
    "which training leaves as they are";

struct BatchStatistics {
  const Tensor *mean, *variance; ///< per channel
  double epsilon;
};

/// By running statistics: (x - mean) * (scale / sqrt(var + eps)) + bias.
llvm::FailureOr<Tensor> batchNorm(Conversion &node, const Tensor &input, const Tensor *scale,
                                  const Tensor *bias, const BatchStatistics &statistics);

} // namespace dtc::import
