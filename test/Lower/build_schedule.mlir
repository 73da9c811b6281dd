// RUN: dtc-opt %s --dtc-build-schedule="microbatches=3 ranks=2 rank=0" | FileCheck %s --check-prefix=FIRST
// RUN: dtc-opt %s --dtc-build-schedule="microbatches=3 ranks=2 rank=1" | FileCheck %s --check-prefix=LAST

// The calls of a rank of 1F1B, with slots: rank 0 keeps two microbatches at a time.
// Functions that run once a step come first, but for those that take what microbatches give.

// FIRST: exec.schedule microbatches 3
// FIRST-NEXT: exec.call @prologue microbatch 0 slot 0
// FIRST-NEXT: exec.call @clear microbatch 0 slot 0
// FIRST-NEXT: exec.call @forward microbatch 0 slot 0
// FIRST-NEXT: exec.call @forward microbatch 1 slot 1
// FIRST-NEXT: exec.call @backward microbatch 0 slot 0
// FIRST-NEXT: exec.call @forward microbatch 2 slot 0
// FIRST-NEXT: exec.call @backward microbatch 1 slot 1
// FIRST-NEXT: exec.call @backward microbatch 2 slot 0
// FIRST-NEXT: exec.call @update microbatch 0 slot 0
// FIRST-NEXT: }

// LAST: exec.call @forward microbatch 0 slot 0
// LAST-NEXT: exec.call @backward microbatch 0 slot 0
// LAST-NEXT: exec.call @forward microbatch 1 slot 0

func.func @update(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<step>} {
  return
}
func.func @forward() -> (tensor<4xf32> {dtc.role = #dtc.role<kept, "k">}) attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
  %k = exec.zero : tensor<4xf32>
  return %k : tensor<4xf32>
}
func.func @backward(%k: tensor<4xf32> {dtc.role = #dtc.role<kept, "k">}, %g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, backward>} {
  return %k : tensor<4xf32>
}
func.func @prologue(%t: tensor<12xi32> {dtc.role = #dtc.role<target, "t">}) attributes {dtc.runs = #dtc.runs<step>} {
  return
}
