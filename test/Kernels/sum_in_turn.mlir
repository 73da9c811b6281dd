// RUN: dtc-opt %s --dtc-decompose-layers | FileCheck %s

dist.mesh @mesh ["dp" = 2]

// Each term is added as soon as it is there.
// CHECK-LABEL: @four(%arg0: tensor<8x4xf32>
// CHECK-NEXT: %[[A:.*]] = dtc.contract %arg1
// CHECK-NEXT: %[[S:.*]] = dtc.sum %arg0, %[[A]]
// CHECK-NEXT: %[[B:.*]] = dtc.contract %arg2
// CHECK-NEXT: %[[BEFORE:.*]] = dtc.barrier %[[S]]
// CHECK-NEXT: %[[T:.*]] = dtc.sum %[[BEFORE]], %[[B]]
// CHECK-NEXT: %[[C:.*]] = dtc.contract %arg3
// CHECK-NEXT: %[[THEN:.*]] = dtc.barrier %[[T]]
// CHECK-NEXT: %[[U:.*]] = dtc.sum %[[THEN]], %[[C]]
// CHECK-NEXT: %[[D:.*]] = dtc.contract %arg4
// CHECK-NEXT: %[[LAST:.*]] = dtc.barrier %[[U]]
// CHECK-NEXT: %[[V:.*]] = dtc.sum %[[LAST]], %[[D]]
// CHECK-NEXT: return %[[V]]
func.func @four(%sum: tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}, %a: tensor<16x8xf32>, %b: tensor<16x8xf32>, %c: tensor<16x8xf32>,
    %d: tensor<16x8xf32>, %x: tensor<16x4xf32>) -> (tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %0 = dtc.contract %a [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %1 = dtc.contract %b [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %2 = dtc.contract %c [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %3 = dtc.contract %d [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %4 = dtc.sum %0, %1, %2, %3 : tensor<8x4xf32>
  %5 = dtc.sum %sum, %4 : tensor<8x4xf32>
  return %5 : tensor<8x4xf32>
}

// Terms that an earlier pass made count as well, so that passes taken apart have the bits of one. They are there: nothing waits.
// CHECK-LABEL: @made_before(%arg0: tensor<8x4xf32>
// CHECK-NEXT: %[[S:.*]] = dtc.sum %arg0, %arg1
// CHECK-NEXT: %[[T:.*]] = dtc.sum %[[S]], %arg2
// CHECK-NEXT: %[[U:.*]] = dtc.sum %[[T]], %arg3
// CHECK-NEXT: %[[D:.*]] = dtc.contract
// CHECK-NEXT: %[[LAST:.*]] = dtc.barrier %[[U]]
// CHECK-NEXT: %[[V:.*]] = dtc.sum %[[LAST]], %[[D]]
// CHECK-NEXT: return %[[V]]
func.func @made_before(%sum: tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}, %0: tensor<8x4xf32>, %1: tensor<8x4xf32>, %2: tensor<8x4xf32>,
    %d: tensor<16x8xf32>, %x: tensor<16x4xf32>) -> (tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %3 = dtc.contract %d [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %4 = dtc.sum %0, %1, %2, %3 : tensor<8x4xf32>
  %5 = dtc.sum %sum, %4 : tensor<8x4xf32>
  return %5 : tensor<8x4xf32>
}

// The order is that of the terms, not of what makes them: each pass may have another one.
// CHECK-LABEL: @made_later(
// CHECK: %[[D:.*]] = dtc.contract %arg1
// CHECK-NEXT: %[[S:.*]] = dtc.sum %[[D]], %arg2
// CHECK-NEXT: %[[T:.*]] = dtc.sum %[[S]], %arg3
// CHECK-NEXT: %[[U:.*]] = dtc.sum %[[T]], %arg4
// CHECK-NEXT: return %[[U]]
func.func @made_later(%x: tensor<16x4xf32>, %d: tensor<16x8xf32>, %1: tensor<8x4xf32>, %2: tensor<8x4xf32>, %3: tensor<8x4xf32>)
    -> (tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %0 = dtc.contract %d [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %4 = dtc.sum %0, %1, %2, %3 : tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// Three are one sum, added to what earlier microbatches left.
// CHECK-LABEL: @three
// CHECK-NOT: dtc.barrier
// CHECK: return
func.func @three(%sum: tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}, %a: tensor<16x8xf32>, %b: tensor<16x8xf32>, %c: tensor<16x8xf32>, %x: tensor<16x4xf32>)
    -> (tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %0 = dtc.contract %a [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %1 = dtc.contract %b [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %2 = dtc.contract %c [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %3 = dtc.sum %0, %1, %2 : tensor<8x4xf32>
  %4 = dtc.sum %sum, %3 : tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// Terms of what isn't a weight's gradient are made close together.
// CHECK-LABEL: @no_gradient_of_a_weight
// CHECK-NOT: dtc.barrier
// CHECK: return
func.func @no_gradient_of_a_weight(%a: tensor<16x8xf32>, %b: tensor<16x8xf32>, %c: tensor<16x8xf32>, %d: tensor<16x8xf32>, %x: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = dtc.contract %a [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %1 = dtc.contract %b [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %2 = dtc.contract %c [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %3 = dtc.contract %d [2, 0], %x [2, 1] -> [0, 1] : tensor<16x8xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %4 = dtc.sum %0, %1, %2, %3 : tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// A kernel of the sum would reduce both terms itself. All of what the first one is made of would wait for the last.
// CHECK-LABEL: @reduced
// CHECK-NEXT: %[[A:.*]] = dtc.reduce
// CHECK-NEXT: %[[STORED:.*]] = dtc.barrier %[[A]]
// CHECK-NEXT: %[[B:.*]] = dtc.reduce
// CHECK-NEXT: dtc.sum %[[STORED]], %[[B]]
func.func @reduced(%sum: tensor<4xf32> {dtc.role = #dtc.role<gradient, "b">}, %a: tensor<16x4xf32>, %b: tensor<16x4xf32>)
    -> (tensor<4xf32> {dtc.role = #dtc.role<gradient, "b">}) {
  %0 = dtc.reduce sum %a [0] : tensor<16x4xf32> -> tensor<4xf32>
  %1 = dtc.reduce sum %b [0] : tensor<16x4xf32> -> tensor<4xf32>
  %2 = dtc.sum %0, %1 : tensor<4xf32>
  %3 = dtc.sum %sum, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// So it is where ranks get their parts of the sum.
// CHECK-LABEL: @reduced_and_scattered
// CHECK-NEXT: %[[A:.*]] = dtc.reduce
// CHECK-NEXT: %[[STORED:.*]] = dtc.barrier %[[A]]
// CHECK-NEXT: %[[B:.*]] = dtc.reduce
// CHECK-NEXT: dtc.sum %[[STORED]], %[[B]]
func.func @reduced_and_scattered(%sum: tensor<2xf32> {dtc.role = #dtc.role<gradient, "b">}, %a: tensor<16x4xf32>, %b: tensor<16x4xf32>)
    -> (tensor<2xf32> {dtc.role = #dtc.role<gradient, "b">}) {
  %0 = dtc.reduce sum %a [0] : tensor<16x4xf32> -> tensor<4xf32>
  %1 = dtc.reduce sum %b [0] : tensor<16x4xf32> -> tensor<4xf32>
  %2 = dtc.sum %0, %1 : tensor<4xf32>
  %3 = dist.reduce_scatter sum %2 dim 0 on @mesh {"dp"} : tensor<4xf32> -> tensor<2xf32>
  %4 = dtc.sum %sum, %3 : tensor<2xf32>
  return %4 : tensor<2xf32>
}
