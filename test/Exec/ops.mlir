// RUN: dtc-opt %s | dtc-opt | FileCheck %s
// RUN: dtc-opt %s --mlir-print-op-generic | dtc-opt | FileCheck %s

// CHECK: exec.kernel @add extent 16 scratch 0 flat
exec.kernel @add extent 16 scratch 0 flat {
^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
  %0 = arith.addf %a, %b : tensor<16xf32>
  // CHECK: exec.yield %{{.*}} : tensor<16xf32>
  exec.yield %0 : tensor<16xf32>
}

// CHECK: exec.kernel @rows extent 4 scratch 64 {
exec.kernel @rows extent 4 scratch 64 {
^bb0(%a: tensor<4x8xf32>):
  %0 = dtc.reduce sum %a [1] : tensor<4x8xf32> -> tensor<4xf32>
  exec.yield %a, %0 : tensor<4x8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  // CHECK: exec.launch @add(%{{.*}}, %{{.*}}) extent 32 in_place [0] {exec.offsets = array<i64: 128>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = exec.launch @add(%x, %x) extent 32 in_place [0] {exec.offsets = array<i64: 128>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: exec.launch @rows(%{{.*}}) extent 4 in_place [0, -1] : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  %1:2 = exec.launch @rows(%0) extent 4 in_place [0, -1] : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return %1#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<2x3x8x8xf32>, %dy: tensor<2x6x4x4xf32>, %before: tensor<6x3x3x3xf32>) -> tensor<6x3x3x3xf32> {
  // CHECK: exec.conv_weight_grad %{{.*}}, %{{.*}} with %{{.*}} strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<2x3x8x8xf32>, tensor<2x6x4x4xf32> -> tensor<6x3x3x3xf32>
  %0 = exec.conv_weight_grad %x, %dy with %before strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<2x3x8x8xf32>, tensor<2x6x4x4xf32> -> tensor<6x3x3x3xf32>
  return %0 : tensor<6x3x3x3xf32>
}
