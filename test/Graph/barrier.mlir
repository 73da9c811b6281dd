// RUN: dtc-opt %s --canonicalize --cse | FileCheck %s
// RUN: dtc-opt %s --verify-roundtrip -o /dev/null

// What is computed behind a barrier is not what was computed before it, nor behind another.
// CHECK-LABEL: @computed_anew
func.func @computed_anew(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: math.exp %arg0
  // CHECK: %[[Y:.*]] = dtc.barrier %arg0 : tensor<8xf32>
  // CHECK: %[[Z:.*]] = dtc.barrier %arg0 : tensor<8xf32>
  // CHECK: math.exp %[[Y]]
  // CHECK: math.exp %[[Z]]
  // CHECK-NOT: math.exp
  %a = math.exp %x : tensor<8xf32>
  %y = dtc.barrier %x : tensor<8xf32>
  %z = dtc.barrier %x : tensor<8xf32>
  %b = math.exp %y : tensor<8xf32>
  %c = math.exp %z : tensor<8xf32>
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// No fold sees through it.
// CHECK-LABEL: @not_folded
func.func @not_folded(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // CHECK: dtc.reshape
  // CHECK: dtc.barrier
  // CHECK: dtc.reshape
  %a = dtc.reshape %x : tensor<4x2xf32> -> tensor<8xf32>
  %b = dtc.barrier %a : tensor<8xf32>
  %c = dtc.reshape %b : tensor<8xf32> -> tensor<4x2xf32>
  return %c : tensor<4x2xf32>
}
