// RUN: dtc-opt %s --dtc-build-schedule="microbatches=2 ranks=2 rank=0 trains=false" | FileCheck %s
// RUN: not dtc-opt %s --dtc-build-schedule="microbatches=2 ranks=2 rank=0" 2>&1 | FileCheck %s --check-prefix=TRAINS

// Nothing comes back, so that the second microbatch follows the first one.

// CHECK: exec.schedule microbatches 2 {
// CHECK-NEXT: exec.call @forward microbatch 0 slot 0
// CHECK-NEXT: exec.call @send_activations microbatch 0
// CHECK-NEXT: exec.call @forward microbatch 1 slot 0
// CHECK-NEXT: exec.call @send_activations microbatch 1
// CHECK-NEXT: }

// TRAINS: error: {{.*}}no function makes its backward pass
module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  func.func @forward(%x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<outbox, "activation 0 to stage 1">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %0 = math.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
