// From a forward graph to one training step.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtc::training {

enum class LossKind : uint8_t { CrossEntropy, MeanSquaredError, Output, None };
enum class OptimizerKind : uint8_t { Sgd, Adam, AdamW };
/// BF16 and F16 keep masters, states and gradients in f32; BF16True keeps all in bf16, without
/// masters. TF32 is F32 here: a GPU's libraries round what they multiply.
enum class Precision : uint8_t { F32, BF16, F16, BF16True, TF32 };

/// Low-rank adapters (LoRA), which are trained instead of the model.
struct AdapterOptions {
  int64_t rank = 0;                   ///< 0: none
  double alpha = 0;                   ///< what they give is scaled by alpha / rank; 0: by 1
  std::optional<std::string> targets; ///< of weights matching this; all otherwise
};

/// Dynamic loss scaling, by the rules of torch.amp.GradScaler and with its defaults.
struct LossScaleOptions {
  double initial = 65536;
  int64_t growthInterval = 2000; ///< clean steps after which the scale doubles

  /// Far from what an f32 holds, also after many steps; and up to which it counts.
  static constexpr double kLeast = 0x1p-64, kMost = 0x1p64;
  static constexpr int64_t kMostInterval = int64_t(1) << 24;
};

/// Of features between two products, and of heads (PadDimension.h).
struct HiddenPadding {
  int64_t ways = 1;     ///< those that it divides stay as they are
  int64_t multiple = 1; ///< to which other features are padded
  /// Whoever asks compares prices: as many may be added as there are. Else hardly any are.
  bool isPriced = false;
  /// Parameters by name, and the dimensions of theirs that are padded, as are those that have to
  /// be along with them. None: all that can be.
  std::optional<std::vector<std::pair<std::string, int64_t>>> among;
};

struct TrainOptions {
  LossKind loss = LossKind::CrossEntropy;
  std::string lossOutput; ///< for LossKind::Output
  int64_t ignoreIndex = -100;
  double labelSmoothing = 0;        ///< of cross entropy, as PyTorch's
  std::vector<double> classWeights; ///< of cross entropy; empty: all are 1
  OptimizerKind optimizer = OptimizerKind::AdamW;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0.01, momentum = 0.0;
  bool nesterov = false;
  std::optional<std::string> noDecay; ///< parameters matching this get no weight decay
  std::optional<double> clipGradNorm;
  Precision precision = Precision::F32;
  int64_t numMicrobatches = 1;
  int64_t classMultiple = 1; ///< cross entropy's classes are padded to it (PadDimension.h)
  HiddenPadding hidden;
  AdapterOptions adapters;
  LossScaleOptions lossScale; ///< of fp16

  /// Half the range of fp16 would be lost to gradients otherwise.
  bool scalesLoss() const { return precision == Precision::F16 && loss != LossKind::None; }
};

/// Replaces @forward by the functions of a training step (LossKind::None: keeps
/// @forward alone). Arguments and results carry #dtc.role; batch dimensions
/// are those of one microbatch over all ranks, except in @prologue.
///
///   @prologue(target of all microbatches [n*b, ...]) -> (count : f32)
///     number of valid target elements in the global batch; only cross entropy
///     has to look at the target for it and has the argument
///   @loss_and_grads(parameters, buffers, inputs, target, scalar count,
///                   [loss so far, gradients so far]) -> (loss, gradients)
///     loss: f32 sum over valid elements; gradients: of the mean over the
///     global batch. The bracketed arguments (roles loss and gradient) are
///     there with more than one microbatch; then the results include them.
///   @update(parameters, [masters], states, gradients, loss, scalars lr : f64,
///           step : f64, count : f32) ->
///          (parameters, [masters], states, grad_norm : f32, loss : f32 mean,
///           non_finite : f32, how many elements of the gradients aren't finite)
///     a result of a role and name that is also an argument replaces it.
///
/// With fp16, buffers hold the scale of the loss (LossScaling.h): loss_and_grads reads it, so that
/// gradients are scaled, and update reads and replaces it.
///
/// The loss is about the output named "logits", or the only float one. With
/// bf16 or fp16 the parameters (and their dtc.parameter) are that, masters, states
/// and gradients f32. With bf16-true all of them are bf16, and there are no masters. A trainable
/// parameter that the loss does not depend on is left alone: it has a warning, no gradient and no
/// place in @update.
///
/// Forward ops are numbered with `dtc.id`, backward ops carry `dtc.backward`.
mlir::LogicalResult buildTraining(mlir::ModuleOp module, const TrainOptions &options);

} // namespace dtc::training
