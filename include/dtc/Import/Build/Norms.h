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

struct BatchStatistics {
  const Tensor *mean, *variance; ///< per channel; null where a training batch norm has none
  double epsilon;
};

/// By running statistics: (x - mean) * (scale / sqrt(var + eps)) + bias.
llvm::FailureOr<Tensor> batchNorm(Conversion &node, const Tensor &input, const Tensor *scale,
                                  const Tensor *bias, const BatchStatistics &statistics);

/// Exports of a batch norm in eval mode write a momentum of 0 where it has none. With
/// `--batch-norm train` nobody knows which was meant.
inline constexpr char kUnknownMomentum[] =
    "has a momentum of 0, which exports in eval mode also write for momentum=None (a cumulative "
    "average, which is not supported); give it another one for --batch-norm train";

/// A training batch norm, and what becomes of the running statistics; null where it has none.
struct TrainedBatchNorm {
  mlir::Value result, mean, variance;
};

/// By the batch's statistics. The running ones move towards them, as PyTorch's do: new = (1 -
/// momentum) * old + momentum * batch's. The variance in it is the unbiased one.
llvm::FailureOr<TrainedBatchNorm> trainBatchNorm(Conversion &node, const Tensor &input,
                                                 const Tensor *scale, const Tensor *bias,
                                                 const BatchStatistics &running, double momentum);

} // namespace dtc::import
