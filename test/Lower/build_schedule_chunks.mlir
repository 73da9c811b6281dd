// RUN: dtc-opt %s --dtc-build-schedule="kind=interleaved microbatches=2 ranks=2 rank=1 chunks=2" | FileCheck %s

// Two stage chunks, each with functions of its own.

// CHECK: exec.schedule microbatches 2
// CHECK-NEXT: exec.call @clear microbatch 0 slot 0
// CHECK-NEXT: exec.call @f0 microbatch 0 slot 0
// CHECK-NEXT: exec.call @f0 microbatch 1 slot 1
// CHECK-NEXT: exec.call @f1 microbatch 0 slot 0
// CHECK-NEXT: exec.call @b1 microbatch 0 slot 0
func.func @f0() attributes {dtc.runs = #dtc.runs<microbatch, forward>} { return }
func.func @b0(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "u">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "u">}) attributes {dtc.runs = #dtc.runs<microbatch, backward>} { return %g : tensor<4xf32> }
func.func @f1() attributes {dtc.runs = #dtc.runs<microbatch, forward, chunk 1>} { return }
func.func @b1(%g: tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "w">}) attributes {dtc.runs = #dtc.runs<microbatch, backward, chunk 1>} { return %g : tensor<4xf32> }
