// What waits behind a barrier isn't computed with what comes before it. As part of a kernel of the
// forward pass, it would be there from then on.
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s

dist.mesh @mesh ["tp" = 2]

// Both kernels read the table.
// CHECK-LABEL: func.func @computed_again(
// CHECK: exec.launch {{.*}} -> tensor<8x4xf32>
// CHECK: dtc.barrier
// CHECK: exec.launch {{.*}} -> tensor<8x4xf32>
func.func @computed_again(%x: tensor<8x4xf32>, %table: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = arith.addf %x, %table : tensor<8x4xf32>
  %b = dtc.barrier %x {dtc.backward = #dtc.backward<1, recompute>} : tensor<8x4xf32>
  %1 = arith.mulf %b, %table : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @gathered_again(
// CHECK: exec.launch {{.*}} -> tensor<8x4xf32>
// CHECK: dist.all_gather
// CHECK: exec.launch {{.*}} -> tensor<8x4xf32>
func.func @gathered_again(%x: tensor<8x4xf32>, %part: tensor<4x4xf32>, %table: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = arith.addf %x, %table : tensor<8x4xf32>
  %b = dtc.barrier %part : tensor<4x4xf32>
  %g = dist.all_gather %b dim 0 on @mesh {"tp"} : tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = arith.mulf %g, %table : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// A block has a barrier before each value that it reads.
// CHECK-LABEL: func.func @one_block(
// CHECK: exec.launch {{.*}} -> (tensor<8x4xf32>, tensor<8x4xf32>)
func.func @one_block(%x: tensor<8x4xf32>, %z: tensor<8x4xf32>, %table: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %b = dtc.barrier %x {dtc.backward = #dtc.backward<1, recompute>} : tensor<8x4xf32>
  %0 = arith.addf %b, %table : tensor<8x4xf32>
  %c = dtc.barrier %z {dtc.backward = #dtc.backward<1, recompute>} : tensor<8x4xf32>
  %1 = arith.mulf %c, %table : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Of other barriers nothing is computed again.
// CHECK-LABEL: func.func @kept_narrow(
// CHECK: exec.launch {{.*}} -> (tensor<8x4xf32>, tensor<8x4xf32>)
func.func @kept_narrow(%x: tensor<8x4xf32>, %table: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = arith.addf %x, %table : tensor<8x4xf32>
  %b = dtc.barrier %x : tensor<8x4xf32>
  %1 = arith.mulf %b, %table : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Nor is it computed with what it reads, where the forward pass needs that, too.
// CHECK-LABEL: func.func @shared_producer(
// CHECK: exec.launch {{.*}} -> tensor<8x4xf32>
// CHECK: dtc.barrier
// CHECK: exec.launch {{.*}} -> tensor<8x4xf32>
func.func @shared_producer(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %table: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = arith.addf %x, %table : tensor<8x4xf32>
  %b = dtc.barrier %y {dtc.backward = #dtc.backward<1, recompute>} : tensor<8x4xf32>
  %1 = arith.mulf %b, %0 : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}
