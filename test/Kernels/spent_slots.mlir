// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s

// The slot's place is there anyway: what the product made goes.
// CHECK-LABEL: func.func @spent(
// CHECK: %[[G:.*]] = dtc.contract
// CHECK: exec.launch @{{.*}}(%[[G]], %arg2) extent {{.*}} in_place [1]
func.func @spent(%dy: tensor<8x4xf32>, %v: tensor<4x16xf32>, %kept: tensor<8x16xf32> {dtc.role = #dtc.role<kept, "p">}) -> tensor<8x4xf32> {
  %0 = dtc.contract %dy [0, 2], %v [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %1 = arith.mulf %0, %kept : tensor<8x16xf32>
  %2 = dtc.contract %1 [0, 2], %v [1, 2] -> [0, 1] : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// A product before the kernel may read the slot, too.
// CHECK-LABEL: func.func @read_before(
// CHECK: exec.launch {{.*}} in_place [1]
func.func @read_before(%dy: tensor<8x4xf32>, %v: tensor<4x16xf32>, %kept: tensor<8x16xf32> {dtc.role = #dtc.role<kept, "p">})
    -> (tensor<4x16xf32>, tensor<8x4xf32>) {
  %0 = dtc.contract %dy [2, 0], %kept [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %1 = dtc.contract %dy [0, 2], %v [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %2 = arith.mulf %1, %kept : tensor<8x16xf32>
  %3 = dtc.contract %2 [0, 2], %v [1, 2] -> [0, 1] : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32>
  return %0, %3 : tensor<4x16xf32>, tensor<8x4xf32>
}

// One that comes later reads what was kept.
// CHECK-LABEL: func.func @read_behind(
// CHECK: exec.launch {{.*}} in_place [0]
func.func @read_behind(%dy: tensor<8x4xf32>, %v: tensor<4x16xf32>, %kept: tensor<8x16xf32> {dtc.role = #dtc.role<kept, "p">})
    -> (tensor<8x4xf32>, tensor<4x16xf32>) {
  %0 = dtc.contract %dy [0, 2], %v [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %1 = arith.mulf %0, %kept : tensor<8x16xf32>
  %2 = dtc.contract %1 [0, 2], %v [1, 2] -> [0, 1] : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32>
  %3 = dtc.contract %2 [2, 0], %kept [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  return %2, %3 : tensor<8x4xf32>, tensor<4x16xf32>
}

// What another slot keeps has a place of its own, in which the product may make its result.
// CHECK-LABEL: func.func @returned(
// CHECK: exec.launch {{.*}} in_place [0]
func.func @returned(%dy: tensor<8x4xf32>, %v: tensor<4x16xf32>, %kept: tensor<8x16xf32> {dtc.role = #dtc.role<kept, "p">})
    -> (tensor<8x16xf32> {dtc.role = #dtc.role<kept, "s">}) {
  %0 = dtc.contract %dy [0, 2], %v [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %1 = arith.mulf %0, %kept : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
