// RUN: not dtc-opt %s --dtc-build-schedule="kind=2f2b" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not dtc-opt %s --dtc-build-schedule="kind=gpipe chunks=2" 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not dtc-opt %s --dtc-build-schedule="ranks=2 rank=2" 2>&1 | FileCheck %s --check-prefix=RANK

// RUN: not dtc-opt %s --dtc-build-schedule="microbatches=2 ranks=2 rank=0" 2>&1 | FileCheck %s --check-prefix=APART

// KIND: error: unknown schedule: 2f2b
// SHAPE: error: no such schedule:
// RANK: error: the pipeline has no such rank: 2
// APART: error: microbatch 0 of chunk 0: its passes don't follow each other, but one function makes them

// Rank 0 of two makes another forward pass before the first backward pass.
func.func @loss_and_grads(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  return %g : tensor<4xf32>
}
