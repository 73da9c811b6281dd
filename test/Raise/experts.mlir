// RUN: dtc-opt --split-input-file --dtc-raise %s | FileCheck %s

// Two products with the weights of each token's two experts, and SwiGLU between: rows are dispatched once and combined
// once; the guards of the look-ups go, as top_k finds experts that are there.
// CHECK-LABEL: func @mixture
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x6xf32> {{.*}}, %[[UP:.*]]: tensor<4x10x6xf32>, %[[DOWN:.*]]: tensor<4x6x5xf32>, %[[P:.*]]: tensor<16x4xf32>)
// CHECK-NOT: arith.select
// CHECK: %[[K:.*]] = dtc.top_k
// CHECK: %[[C:.*]] = dtc.reshape %[[K]] : tensor<16x2xi64> -> tensor<2x16xi64>
// CHECK: %[[IN:.*]] = dtc.dispatch %{{.*}}, %[[C]] experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
// CHECK: %[[TO:.*]] = dtc.dispatch %[[C]], %[[C]] experts 4
// CHECK: %[[W:.*]] = dtc.reshape %[[UP]] : tensor<4x10x6xf32> -> tensor<4x2x5x6xf32>
// CHECK: %[[BOTH:.*]] = dtc.grouped_contract %[[IN]] [0, 1, 5], %[[W]] [2, 3, 4, 5] -> [0, 1, 3, 4] by %[[TO]] [0, 1] of 2
// CHECK-NOT: dtc.combine
// CHECK: dtc.activation silu %{{.*}} : tensor<2x16x1x5xf32>
// CHECK-NOT: dtc.dispatch %{{.*}} : tensor<2x16x5xf32>
// CHECK: %[[OUT:.*]] = dtc.grouped_contract %{{.*}} [0, 1, 4], %[[DOWN]] [2, 3, 4] -> [0, 1, 3] by
// CHECK: dtc.combine %[[OUT]], %{{.*}} experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
// CHECK-NOT: dtc.combine
func.func @mixture(%x: tensor<2x8x6xf32> {dtc.role = #dtc.role<input, "x">}, %up: tensor<4x10x6xf32>, %down: tensor<4x6x5xf32>, %p: tensor<16x4xf32>) -> tensor<16x2x6xf32> {
  %four = arith.constant dense<4> : tensor<16x2xi64>
  %nan = arith.constant dense<0x7FC00000> : tensor<16x2x10x6xf32>
  %0 = dtc.reshape %x : tensor<2x8x6xf32> -> tensor<16x6xf32>
  %1 = dtc.broadcast %0 [0, 2] : tensor<16x6xf32> -> tensor<16x2x6xf32>
  %2 = dtc.top_k %p : tensor<16x4xf32> -> tensor<16x2xi64>
  %3 = arith.cmpi ult, %2, %four : tensor<16x2xi64>
  %4 = dtc.gather %up, %2 axis 0 : tensor<4x10x6xf32>, tensor<16x2xi64> -> tensor<16x2x10x6xf32>
  %5 = dtc.broadcast %3 [0, 1] : tensor<16x2xi1> -> tensor<16x2x10x6xi1>
  %6 = arith.select %5, %4, %nan : tensor<16x2x10x6xi1>, tensor<16x2x10x6xf32>
  %7 = dtc.reshape %6 : tensor<16x2x10x6xf32> -> tensor<16x2x2x5x6xf32>
  %8 = dtc.contract %7 [0, 1, 2, 3, 4], %1 [0, 1, 4] -> [0, 1, 2, 3] : tensor<16x2x2x5x6xf32>, tensor<16x2x6xf32> -> tensor<16x2x2x5xf32>
  %9 = dtc.slice %8 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<16x2x2x5xf32> -> tensor<16x2x1x5xf32>
  %10 = dtc.slice %8 offsets [0, 0, 1, 0] strides [1, 1, 1, 1] : tensor<16x2x2x5xf32> -> tensor<16x2x1x5xf32>
  %11 = dtc.activation silu %9 : tensor<16x2x1x5xf32>
  %12 = arith.mulf %11, %10 : tensor<16x2x1x5xf32>
  %13 = dtc.reshape %12 : tensor<16x2x1x5xf32> -> tensor<16x2x5xf32>
  %14 = dtc.gather %down, %2 axis 0 : tensor<4x6x5xf32>, tensor<16x2xi64> -> tensor<16x2x6x5xf32>
  %15 = dtc.contract %13 [0, 1, 3], %14 [0, 1, 2, 3] -> [0, 1, 2] : tensor<16x2x5xf32>, tensor<16x2x6x5xf32> -> tensor<16x2x6xf32>
  return %15 : tensor<16x2x6xf32>
}

// -----

// Other choices: rows go back in between. A choice that may be no expert keeps its guard.
// CHECK-LABEL: func @others
// CHECK: arith.select
// CHECK: dtc.grouped_contract
// CHECK: dtc.combine
// CHECK: dtc.dispatch
// CHECK: dtc.grouped_contract
// CHECK: dtc.combine
func.func @others(%x: tensor<2x8x6xf32> {dtc.role = #dtc.role<input, "x">}, %w: tensor<4x6x6xf32>, %i: tensor<2x8xi64>, %j: tensor<2x8xi64>) -> tensor<2x8x6xf32> {
  %zero = arith.constant dense<0> : tensor<2x8xi64>
  %0 = arith.cmpi slt, %i, %zero : tensor<2x8xi64>
  %1 = arith.select %0, %zero, %i : tensor<2x8xi1>, tensor<2x8xi64>
  %2 = dtc.gather %w, %1 axis 0 : tensor<4x6x6xf32>, tensor<2x8xi64> -> tensor<2x8x6x6xf32>
  %3 = dtc.contract %x [0, 1, 3], %2 [0, 1, 2, 3] -> [0, 1, 2] : tensor<2x8x6xf32>, tensor<2x8x6x6xf32> -> tensor<2x8x6xf32>
  %4 = dtc.gather %w, %j axis 0 : tensor<4x6x6xf32>, tensor<2x8xi64> -> tensor<2x8x6x6xf32>
  %5 = dtc.contract %3 [0, 1, 3], %4 [0, 1, 2, 3] -> [0, 1, 2] : tensor<2x8x6xf32>, tensor<2x8x6x6xf32> -> tensor<2x8x6xf32>
  return %5 : tensor<2x8x6xf32>
}

// -----

// What is summed over the rows is no product of each row.
// CHECK-LABEL: func @summed
// CHECK-NOT: dtc.grouped_contract
func.func @summed(%x: tensor<2x8x6xf32> {dtc.role = #dtc.role<input, "x">}, %w: tensor<4x6x6xf32>, %i: tensor<2x8xi64>) -> tensor<2x6xf32> {
  %0 = dtc.gather %w, %i axis 0 : tensor<4x6x6xf32>, tensor<2x8xi64> -> tensor<2x8x6x6xf32>
  %1 = dtc.contract %x [0, 1, 3], %0 [0, 1, 2, 3] -> [0, 2] : tensor<2x8x6xf32>, tensor<2x8x6x6xf32> -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}

// -----

// One choice a token, whose dimension of one element came and went; a bias by expert is added where rows are dispatched.
// CHECK-LABEL: func @one_choice
// CHECK: %[[C:.*]] = dtc.reshape %{{.*}} : tensor<2x8x1xi64> -> tensor<2x8xi64>
// CHECK: %[[IN:.*]] = dtc.dispatch %arg0, %[[C]] experts 4
// CHECK: %[[UP:.*]] = dtc.grouped_contract %[[IN]] [0, 1, 4], %arg1 [2, 3, 4] -> [0, 1, 3]
// CHECK: %[[BIAS:.*]] = dtc.gather %arg2, %{{.*}} axis 0 : tensor<4x5xf32>, tensor<2x8xi64> -> tensor<2x8x5xf32>
// CHECK: %[[ROWS:.*]] = arith.addf %[[UP]], %[[BIAS]]
// CHECK: dtc.grouped_contract %[[ROWS]] [0, 1, 4], %arg3
func.func @one_choice(%x: tensor<2x8x6xf32> {dtc.role = #dtc.role<input, "x">}, %w: tensor<4x5x6xf32>, %b: tensor<4x5xf32>, %v: tensor<4x6x5xf32>, %p: tensor<2x8x4xf32>) -> tensor<2x8x6xf32> {
  %i = dtc.top_k %p : tensor<2x8x4xf32> -> tensor<2x8x1xi64>
  %0 = dtc.gather %w, %i axis 0 : tensor<4x5x6xf32>, tensor<2x8x1xi64> -> tensor<2x8x1x5x6xf32>
  %1 = dtc.reshape %0 : tensor<2x8x1x5x6xf32> -> tensor<2x8x5x6xf32>
  %2 = dtc.contract %x [0, 1, 3], %1 [0, 1, 2, 3] -> [0, 1, 2] : tensor<2x8x6xf32>, tensor<2x8x5x6xf32> -> tensor<2x8x5xf32>
  %3 = dtc.gather %b, %i axis 0 : tensor<4x5xf32>, tensor<2x8x1xi64> -> tensor<2x8x1x5xf32>
  %4 = dtc.reshape %3 : tensor<2x8x1x5xf32> -> tensor<2x8x5xf32>
  %5 = arith.addf %2, %4 : tensor<2x8x5xf32>
  %6 = dtc.gather %v, %i axis 0 : tensor<4x6x5xf32>, tensor<2x8x1xi64> -> tensor<2x8x1x6x5xf32>
  %7 = dtc.reshape %6 : tensor<2x8x1x6x5xf32> -> tensor<2x8x6x5xf32>
  %8 = dtc.contract %5 [0, 1, 3], %7 [0, 1, 2, 3] -> [0, 1, 2] : tensor<2x8x5xf32>, tensor<2x8x6x5xf32> -> tensor<2x8x6xf32>
  return %8 : tensor<2x8x6xf32>
}

// -----

// A row as a matrix of one row: no index counts it, as weight gradients would be sums over it.
// CHECK-LABEL: func @vectors
// CHECK: dtc.grouped_contract %{{.*}} [0, 1, 3], %arg1 [2, 3, 4] -> [0, 1, 4] by %{{.*}} [0, 1] of 2 : tensor<4x6x6xf32>, tensor<3x6x5xf32>, tensor<4x6xi64> -> tensor<4x6x5xf32>
func.func @vectors(%x: tensor<4x6x1x6xf32> {dtc.role = #dtc.role<input, "x">}, %w: tensor<3x6x5xf32>, %i: tensor<4x6xi64>) -> tensor<4x6x1x5xf32> {
  %0 = dtc.gather %w, %i axis 0 : tensor<3x6x5xf32>, tensor<4x6xi64> -> tensor<4x6x6x5xf32>
  %1 = dtc.contract %x [0, 1, 2, 4], %0 [0, 1, 4, 3] -> [0, 1, 2, 3] : tensor<4x6x1x6xf32>, tensor<4x6x6x5xf32> -> tensor<4x6x1x5xf32>
  return %1 : tensor<4x6x1x5xf32>
}

// -----

// One row a sample.
// CHECK-LABEL: func @one_row
// CHECK: %[[IN:.*]] = dtc.gather %arg2, %{{.*}} axis 0 : tensor<3x6xf32>, tensor<4x1xi64> -> tensor<4x1x6xf32>
// CHECK: %[[OUT:.*]] = dtc.grouped_contract %{{.*}} [0, 1, 4], %arg1 [2, 3, 4] -> [0, 1, 3]
// CHECK: dtc.combine %[[OUT]], %{{.*}} experts 3 : tensor<4x1x5xf32>, tensor<4x1xi64>
func.func @one_row(%x: tensor<4x6xf32> {dtc.role = #dtc.role<input, "x">}, %w: tensor<3x5x6xf32>, %g: tensor<3x6xf32>, %i: tensor<4xi64>) -> tensor<4x5xf32> {
  %0 = dtc.gather %g, %i axis 0 : tensor<3x6xf32>, tensor<4xi64> -> tensor<4x6xf32>
  %1 = dtc.gather %w, %i axis 0 : tensor<3x5x6xf32>, tensor<4xi64> -> tensor<4x5x6xf32>
  %2 = dtc.contract %0 [0, 2], %1 [0, 1, 2] -> [0, 1] : tensor<4x6xf32>, tensor<4x5x6xf32> -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}

// -----

// Rows that meet others of the same size are an embedding's.
// CHECK-LABEL: func @embeddings
// CHECK-NOT: dtc.grouped_contract
func.func @embeddings(%x: tensor<4xi64> {dtc.role = #dtc.role<input, "x">}, %y: tensor<4xi64>, %a: tensor<30x6xf32>, %b: tensor<20x6xf32>) -> tensor<4xf32> {
  %0 = dtc.gather %a, %x axis 0 : tensor<30x6xf32>, tensor<4xi64> -> tensor<4x6xf32>
  %1 = dtc.gather %b, %y axis 0 : tensor<20x6xf32>, tensor<4xi64> -> tensor<4x6xf32>
  %2 = dtc.contract %0 [0, 1], %1 [0, 1] -> [0] : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// The weights are chosen once for all rows.
// CHECK-LABEL: func @single
// CHECK-NOT: dtc.grouped_contract
func.func @single(%x: tensor<1x6xf32> {dtc.role = #dtc.role<input, "x">}, %w: tensor<3x1x5x6xf32>, %i: tensor<i64>) -> tensor<1x5xf32> {
  %0 = dtc.gather %w, %i axis 0 : tensor<3x1x5x6xf32>, tensor<i64> -> tensor<1x5x6xf32>
  %1 = dtc.contract %x [0, 2], %0 [0, 1, 2] -> [0, 1] : tensor<1x6xf32>, tensor<1x5x6xf32> -> tensor<1x5xf32>
  return %1 : tensor<1x5xf32>
}

// -----

// Comparisons whose operands' bounds decide them; of signed numbers true is less than false.
// CHECK-LABEL: func @decided
// CHECK: %[[YES:.*]] = arith.constant dense<true>
// CHECK: %[[BIT:.*]] = arith.cmpi eq
// CHECK: %[[OPEN:.*]] = arith.cmpi slt, %[[BIT]]
// CHECK: return %[[YES]], %[[OPEN]]
func.func @decided(%p: tensor<3x4xf32>, %q: tensor<3x2xi64>) -> (tensor<3x2xi1>, tensor<3x2xi1>) {
  %four = arith.constant dense<4> : tensor<3x2xi64>
  %false = arith.constant dense<false> : tensor<3x2xi1>
  %i = dtc.top_k %p : tensor<3x4xf32> -> tensor<3x2xi64>
  %0 = arith.cmpi sgt, %four, %i : tensor<3x2xi64>
  %1 = arith.cmpi eq, %q, %i : tensor<3x2xi64>
  %2 = arith.cmpi slt, %1, %false : tensor<3x2xi1>
  return %0, %2 : tensor<3x2xi1>, tensor<3x2xi1>
}
