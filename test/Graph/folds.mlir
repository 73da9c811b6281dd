// RUN: dtc-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: @identities
// CHECK-NEXT: return %arg0, %arg0, %arg0, %arg0 : tensor<2x3xf32>
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = dtc.broadcast %x [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = dtc.reshape %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = dtc.transpose %x [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = dtc.slice %x offsets [0, 0] strides [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// A square is transposed without changing its type.
// CHECK-LABEL: @square
// CHECK-NEXT: dtc.transpose
func.func @square(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = dtc.transpose %x [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// CHECK-LABEL: @broadcasts
// CHECK-NEXT: %[[R:.*]] = dtc.broadcast %arg0 [2] : tensor<3xf32> -> tensor<4x2x3x5xf32>
// CHECK-NEXT: return %[[R]]
func.func @broadcasts(%x: tensor<3xf32>) -> tensor<4x2x3x5xf32> {
  %0 = dtc.broadcast %x [1] : tensor<3xf32> -> tensor<2x3xf32>
  %1 = dtc.broadcast %0 [1, 2] : tensor<2x3xf32> -> tensor<4x2x3x5xf32>
  return %1 : tensor<4x2x3x5xf32>
}

// CHECK-LABEL: @reshapes
// CHECK-NEXT: %[[R:.*]] = dtc.reshape %arg0 : tensor<4x6xf32> -> tensor<8x3xf32>
// CHECK-NEXT: return %[[R]], %arg0
func.func @reshapes(%x: tensor<4x6xf32>) -> (tensor<8x3xf32>, tensor<4x6xf32>) {
  %0 = dtc.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %1 = dtc.reshape %0 : tensor<24xf32> -> tensor<8x3xf32>
  %2 = dtc.reshape %1 : tensor<8x3xf32> -> tensor<4x6xf32>
  return %1, %2 : tensor<8x3xf32>, tensor<4x6xf32>
}

// Result dimension i is operand dimension perm[i], twice.
// CHECK-LABEL: @transposes
// CHECK-NEXT: %[[R:.*]] = dtc.transpose %arg0 [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
// CHECK-NEXT: return %[[R]], %arg0
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x4x3xf32>, tensor<2x3x4xf32>) {
  %0 = dtc.transpose %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = dtc.transpose %0 [1, 0, 2] : tensor<4x2x3xf32> -> tensor<2x4x3xf32>
  %2 = dtc.transpose %0 [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  return %1, %2 : tensor<2x4x3xf32>, tensor<2x3x4xf32>
}

// 1, 4, 7, 10, ... then from the second on every other: 4, 10.
// CHECK-LABEL: @slices
// CHECK-NEXT: %[[R:.*]] = dtc.slice %arg0 offsets [4] strides [6] : tensor<12xf32> -> tensor<2xf32>
// CHECK-NEXT: return %[[R]]
func.func @slices(%x: tensor<12xf32>) -> tensor<2xf32> {
  %0 = dtc.slice %x offsets [1] strides [3] : tensor<12xf32> -> tensor<4xf32>
  %1 = dtc.slice %0 offsets [1] strides [2] : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: @splats
// CHECK-DAG: %[[A:.*]] = arith.constant dense<2.000000e+00> : tensor<4x2x3xf32>
// CHECK-DAG: %[[B:.*]] = arith.constant dense<2.000000e+00> : tensor<6xf32>
// CHECK-DAG: %[[C:.*]] = arith.constant dense<2.000000e+00> : tensor<3x2xf32>
// CHECK-DAG: %[[D:.*]] = arith.constant dense<2.000000e+00> : tensor<1x2xf32>
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @splats() -> (tensor<4x2x3xf32>, tensor<6xf32>, tensor<3x2xf32>, tensor<1x2xf32>) {
  %x = arith.constant dense<2.0> : tensor<2x3xf32>
  %0 = dtc.broadcast %x [1, 2] : tensor<2x3xf32> -> tensor<4x2x3xf32>
  %1 = dtc.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %2 = dtc.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %3 = dtc.slice %x offsets [1, 0] strides [1, 2] : tensor<2x3xf32> -> tensor<1x2xf32>
  return %0, %1, %2, %3 : tensor<4x2x3xf32>, tensor<6xf32>, tensor<3x2xf32>, tensor<1x2xf32>
}

// Constants of many values stay where they are.
// CHECK-LABEL: @dense
// CHECK: dtc.broadcast
func.func @dense() -> tensor<2x3xf32> {
  %x = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = dtc.broadcast %x [1] : tensor<3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
