// RUN: not dtc-opt --dtc-train="microbatches=0" %s 2>&1 | FileCheck --check-prefix=MICRO %s
// RUN: not dtc-opt --dtc-train="momentum=0.5" %s 2>&1 | FileCheck --check-prefix=MOMENTUM %s
// RUN: not dtc-opt --dtc-train="optimizer=sgd nesterov=true" %s 2>&1 | FileCheck --check-prefix=NESTEROV %s
// RUN: not dtc-opt --dtc-train="beta1=1.0" %s 2>&1 | FileCheck --check-prefix=BETA %s
// RUN: not dtc-opt --dtc-train="weight-decay=-0.5" %s 2>&1 | FileCheck --check-prefix=DECAY %s
// RUN: not dtc-opt --dtc-train="clip-grad-norm=0" %s 2>&1 | FileCheck --check-prefix=CLIP %s
// RUN: not dtc-opt --dtc-train="no-decay=(" %s 2>&1 | FileCheck --check-prefix=REGEX %s
// RUN: not dtc-opt --dtc-train="loss=output loss-output=z" %s 2>&1 | FileCheck --check-prefix=OUTPUT %s
// RUN: not dtc-opt --dtc-train="loss=output loss-output=y" %s 2>&1 | FileCheck --check-prefix=SHAPE %s
// RUN: not dtc-opt --dtc-train="loss=output loss-output=y microbatches=2" %s 2>&1 | FileCheck --check-prefix=SPLIT %s
// RUN: not dtc-opt --dtc-train="adapter-rank=-1" %s 2>&1 | FileCheck --check-prefix=RANK %s
// RUN: not dtc-opt --dtc-train="hidden-multiple=0" %s 2>&1 | FileCheck --check-prefix=MULTIPLE %s
// RUN: not dtc-opt --dtc-train="adapter-rank=4" %s 2>&1 | FileCheck --check-prefix=ADAPT %s

// MICRO: error: the number of microbatches must be at least 1: 0
// MOMENTUM: error: only sgd has a momentum: 5.000000e-01
// NESTEROV: error: Nesterov's momentum needs sgd with a momentum
// BETA: error: beta1 must be in [0, 1): 1.000000e+00
// DECAY: error: weight decay must be finite and not negative: -5.000000e-01
// CLIP: error: the gradient norm to clip to must be positive: 0.000000e+00
// REGEX: error: not a regular expression ({{.*}}): (
// OUTPUT: error: the model has no output named 'z'; it has: y
// SHAPE: error: the output that is to be the loss must be one float: y is 'tensor<4x8xf32>'
// MULTIPLE: error: what is padded must be padded to a multiple of at least 1: 0
// RANK: error: the rank of adapters must not be negative: -1
// ADAPT: error: the model has no product with a trainable weight to adapt
// SPLIT: error: a loss that the model computes is a mean of its own and can't be put together from microbatches: y
module {
  dtc.parameter trainable @w : tensor<4x8xf32> file tensor<4x8xf32>
  func.func @forward(%w: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    return %w : tensor<4x8xf32>
  }
}
