// RUN: dtc-opt %s --dtc-build-schedule="kind=list microbatches=3 ranks=2 rank=0 kept=1" | FileCheck %s --check-prefix=ONE
// RUN: dtc-opt %s --dtc-build-schedule="kind=list microbatches=3 ranks=2 rank=0" | FileCheck %s --check-prefix=USUAL
// RUN: not dtc-opt %s --dtc-build-schedule="kind=zb microbatches=3 ranks=2 kept=1" 2>&1 | FileCheck %s --check-prefix=OTHER

// A rank that keeps one microbatch has one slot, and begins the next microbatch when it is over.

// ONE: exec.call @forward microbatch 0 slot 0
// ONE-NEXT: exec.call @input_grad microbatch 0 slot 0
// ONE-NEXT: exec.call @weight_grad microbatch 0 slot 0
// ONE-NEXT: exec.call @forward microbatch 1 slot 0
// ONE-NOT: slot 1

// USUAL: exec.call @forward microbatch 0 slot 0
// USUAL-NEXT: exec.call @forward microbatch 1 slot 1
// USUAL-NEXT: exec.call @forward microbatch 2 slot 2

// OTHER: error: no such schedule: schedule=zb takes no limit of kept microbatches, got kept=1
func.func @forward() attributes {dtc.runs = #dtc.runs<microbatch, forward>} { return }
func.func @input_grad() attributes {dtc.runs = #dtc.runs<microbatch, input_grad>} { return }
func.func @weight_grad(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, weight_grad>} { return %g : tensor<4xf32> }
