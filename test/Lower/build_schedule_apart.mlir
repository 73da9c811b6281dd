// RUN: not dtc-opt %s --dtc-build-schedule="kind=2f2b" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not dtc-opt %s --dtc-build-schedule="kind=gpipe chunks=2" 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not dtc-opt %s --dtc-build-schedule="ranks=2 rank=2" 2>&1 | FileCheck %s --check-prefix=RANK

// RUN: dtc-opt %s -verify-diagnostics --dtc-build-schedule="microbatches=2 ranks=2 rank=0"

// KIND: error: unknown schedule: 2f2b
// SHAPE: error: no such schedule:
// RANK: error: the pipeline has no such rank: 2

// Rank 0 of two makes another forward pass before the first backward pass.
// expected-error @below {{makes passes at once that lie apart in the schedule: forward|backward}}
func.func @loss_and_grads(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  return %g : tensor<4xf32>
}
