// Heads whose scores have a bias of their own, or are dropped.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=3 hidden-is-priced" %s --split-input-file | FileCheck %s
// On GPUs features are multiples of more than heads are.
// RUN: dtc-opt --dtc-train="hidden-ways=3 hidden-multiple=24 hidden-is-priced" %s --split-input-file | FileCheck %s
// RUN: dtc-opt --dtc-train="hidden-ways=2 hidden-multiple=2 hidden-is-priced" %s --split-input-file | FileCheck --check-prefix=SAME %s

// A table has a bias by distance for each head, and both layers read it. One of them is products and a softmax.
// CHECK:       dtc.parameter trainable @q : tensor<6x2x8xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 4, 2, 8>}
// CHECK:       dtc.parameter trainable @q2 : tensor<6x2x8xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 4, 2, 8>}
// CHECK:       dtc.parameter trainable @table : tensor<5x6xf32> file tensor<5x4xf32>{{$}}
// CHECK:       dtc.parameter trainable @out : tensor<8x6x2xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 8, 4, 2>}
// CHECK:       dtc.parameter trainable @out2 : tensor<8x6x2xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 8, 4, 2>}
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME:    tensor<4x4xi64> {dtc.limit = 5 : i64, dtc.role = #dtc.role<input, "places">}
// CHECK:         %[[LOOKED:.*]] = dtc.gather {{.*}} -> tensor<4x4x6xf32>
// CHECK:         %[[TURNED:.*]] = dtc.transpose %[[LOOKED]] [2, 0, 1]
// CHECK:         %[[BIAS:.*]] = dtc.broadcast %[[TURNED]] [1, 2, 3] {{.*}} -> tensor<2x6x4x4xf32>
// CHECK:         dtc.attention {{.*}} bias %[[BIAS]]
// CHECK:         %[[SCORES:.*]] = arith.addf {{.*}}, %[[BIAS]]
// CHECK:         dtc.softmax %[[SCORES]] 3
// CHECK:         dtc.scatter_add {{.*}} -> tensor<5x6xf32>

// SAME: dtc.parameter trainable @table : tensor<5x4xf32> file tensor<5x4xf32>{{$}}
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @q2 : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @table : tensor<5x4xf32> file tensor<5x4xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out2 : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %q2: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q2">},
      %table: tensor<5x4xf32> {dtc.role = #dtc.role<parameter, "table">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %out2: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out2">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">},
      %places: tensor<4x4xi64> {dtc.role = #dtc.role<input, "places">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.gather %table, %places axis 0 : tensor<5x4xf32>, tensor<4x4xi64> -> tensor<4x4x4xf32>
    %2 = dtc.transpose %1 [2, 0, 1] : tensor<4x4x4xf32> -> tensor<4x4x4xf32>
    %3 = dtc.broadcast %2 [1, 2, 3] : tensor<4x4x4xf32> -> tensor<2x4x4x4xf32>
    %4, %lse = dtc.attention %0, %0, %0 bias %3 : tensor<2x4x4x4xf32> scale 5.0e-01 : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
    %5 = dtc.contract %4 [0, 1, 3, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    %6 = dtc.contract %5 [0, 1, 4], %q2 [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %7 = dtc.contract %6 [0, 2, 1, 4], %6 [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x4xf32>
    %8 = arith.addf %7, %3 : tensor<2x4x4x4xf32>
    %9 = dtc.softmax %8 3 : tensor<2x4x4x4xf32>
    %10 = dtc.contract %9 [0, 1, 2, 4], %6 [0, 4, 1, 3] -> [0, 1, 2, 3] : tensor<2x4x4x4xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>
    %11 = dtc.contract %10 [0, 3, 1, 4], %out2 [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %11 : tensor<2x4x8xf32>
  }
}

// -----

// The index of an element in its sample stays what it is, as heads are its outermost dimension. The mask is the same for all.
// CHECK:       dtc.parameter trainable @q : tensor<6x2x8xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 4, 2, 8>}
// CHECK:       dtc.parameter trainable @out : tensor<8x6x2xf32> file tensor<8x8xf32> {dtc.filled = array<i64: 8, 4, 2>}
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK:         dtc.broadcast {{.*}} [2, 3] {{.*}} -> tensor<2x6x4x4xf32>
// CHECK:         dtc.dropout {{.*}} : tensor<2x6x4x4xf32>
// CHECK:         dtc.softmax_grad {{.*}} : tensor<2x6x4x4xf32>

// SAME: dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>{{$}}
module {
  dtc.parameter trainable @q : tensor<4x2x8xf32> file tensor<8x8xf32>
  dtc.parameter trainable @out : tensor<8x4x2xf32> file tensor<8x8xf32>
  func.func @forward(
      %q: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "q">},
      %out: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "out">},
      %x: tensor<2x4x8xf32> {dtc.role = #dtc.role<input, "x">},
      %mask: tensor<4x4xf32> {dtc.role = #dtc.role<input, "mask">},
      %keys: tensor<2xi64> {dtc.role = #dtc.role<input, "dropout_keys">})
      -> (tensor<2x4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 1, 4], %q [2, 3, 4] -> [0, 1, 2, 3] : tensor<2x4x8xf32>, tensor<4x2x8xf32> -> tensor<2x4x4x2xf32>
    %1 = dtc.contract %0 [0, 2, 1, 4], %0 [0, 3, 1, 4] -> [0, 1, 2, 3] : tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x4xf32>
    %2 = dtc.broadcast %mask [2, 3] : tensor<4x4xf32> -> tensor<2x4x4x4xf32>
    %3 = arith.addf %1, %2 : tensor<2x4x4x4xf32>
    %4 = dtc.softmax %3 3 : tensor<2x4x4x4xf32>
    %5 = dtc.dropout %4 keys %keys : tensor<2xi64> ratio 1.0e-01 : tensor<2x4x4x4xf32>
    %6 = dtc.contract %5 [0, 1, 2, 4], %0 [0, 4, 1, 3] -> [0, 1, 2, 3] : tensor<2x4x4x4xf32>, tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>
    %7 = dtc.contract %6 [0, 3, 1, 4], %out [2, 3, 4] -> [0, 1, 2] : tensor<2x4x4x2xf32>, tensor<8x4x2xf32> -> tensor<2x4x8xf32>
    return %7 : tensor<2x4x8xf32>
  }
}
