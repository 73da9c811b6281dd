// RUN: dtc-opt --split-input-file --dtc-rebatch=batch=3 %s | FileCheck %s

// Merged dimensions, repeated constants and index ranges follow.
// CHECK-LABEL: func @forward(
// CHECK-SAME: %{{.*}}: tensor<3x4xf32> {{.*}}, %{{.*}}: tensor<4x5xf32> {{.*}}) -> (tensor<12x2xf32>, tensor<3xi64>)
// CHECK: dtc.contract {{.*}} -> tensor<3x5xf32>
// CHECK: arith.constant dense<2.000000e+00> : tensor<3x5xf32>
// CHECK: dtc.broadcast %{{.*}} [1] : tensor<5xf32> -> tensor<3x5xf32>
// CHECK: dtc.iota 0 : tensor<3xi64>
// CHECK: dtc.reshape %{{.*}} : tensor<3x8xf32> -> tensor<12x2xf32>
func.func @forward(%x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
                   %w: tensor<4x5xf32> {dtc.role = #dtc.role<parameter, "w">}) -> (tensor<32x2xf32>, tensor<8xi64>) {
  %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<8x4xf32>, tensor<4x5xf32> -> tensor<8x5xf32>
  %two = arith.constant dense<2.0> : tensor<8x5xf32>
  %row = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  %rows = dtc.broadcast %row [1] : tensor<5xf32> -> tensor<8x5xf32>
  %1 = arith.mulf %0, %two : tensor<8x5xf32>
  %2 = arith.addf %1, %rows : tensor<8x5xf32>
  %zero = arith.constant dense<0> : tensor<8xi64>
  %i = dtc.iota 0 : tensor<8xi64>
  %s = dtc.reduce sum %2 [1] : tensor<8x5xf32> -> tensor<8xf32>
  %b = dtc.broadcast %s [0] : tensor<8xf32> -> tensor<8x8xf32>
  %j = arith.addi %i, %zero : tensor<8xi64>
  %c = arith.sitofp %j : tensor<8xi64> to tensor<8xf32>
  %d = arith.addf %s, %c : tensor<8xf32>
  %r = dtc.reshape %b : tensor<8x8xf32> -> tensor<32x2xf32>
  return %r, %j : tensor<32x2xf32>, tensor<8xi64>
}

// -----

// Constants follow that are the same for each sample, as masks of windows are. In %c the batch is
// inside of a dimension of two windows, behind another one.
// CHECK-LABEL: func @forward(
// CHECK: %[[MASK:.*]] = arith.constant dense<{{\[\[1, 2\], \[3, 4\]\]}}> : tensor<2x2xi32>
// CHECK: %[[ALL:.*]] = dtc.broadcast %{{.*}} [0, 2, 3] : tensor<1x2x2xi32> -> tensor<1x3x2x2xi32>
// CHECK: %[[MASKS:.*]] = dtc.reshape %[[ALL]] : tensor<1x3x2x2xi32> -> tensor<6x2xi32>
// CHECK: arith.addi %{{.*}}, %[[MASKS]]
// CHECK: arith.constant dense<{{\[\[5.*6.*\], \[7.*8.*\]\]}}> : tensor<2x2xf32>
// CHECK: dtc.broadcast %{{.*}} [0, 1, 3] : tensor<2x1x2xf32> -> tensor<2x1x3x2xf32>
// CHECK: dtc.reshape %{{.*}} -> tensor<2x6xf32>
func.func @forward(%x: tensor<2x2x2xi32> {dtc.role = #dtc.role<input, "x">}) -> (tensor<4x2xi32>, tensor<2x4xf32>) {
  %mask = arith.constant dense<[[1, 2], [3, 4], [1, 2], [3, 4]]> : tensor<4x2xi32>
  %0 = dtc.reshape %x : tensor<2x2x2xi32> -> tensor<4x2xi32>
  %1 = arith.addi %0, %mask : tensor<4x2xi32>
  %c = arith.constant dense<[[5.0, 6.0, 5.0, 6.0], [7.0, 8.0, 7.0, 8.0]]> : tensor<2x4xf32>
  %2 = dtc.transpose %1 [1, 0] : tensor<4x2xi32> -> tensor<2x4xi32>
  %3 = arith.sitofp %2 : tensor<2x4xi32> to tensor<2x4xf32>
  %4 = arith.addf %3, %c : tensor<2x4xf32>
  return %1, %4 : tensor<4x2xi32>, tensor<2x4xf32>
}

// -----

// A batch of one: parameters of leading size 1 are repeated, and a reshape
// without a dimension for it takes the batch in front.
// CHECK-LABEL: func @forward(
// CHECK-SAME: %[[X:.*]]: tensor<3x4x6xf32> {{.*}}, %[[P:.*]]: tensor<1x4x6xf32>
// CHECK: %[[ROWS:.*]] = dtc.broadcast %{{.*}} : tensor<1x1x4x6xf32> -> tensor<1x3x1x4x6xf32>
// CHECK: %[[SUM:.*]] = arith.addf %[[X]], %{{.*}} : tensor<3x4x6xf32>
// CHECK: %[[FLAT:.*]] = dtc.reshape %[[SUM]] : tensor<3x4x6xf32> -> tensor<12x6xf32>
// CHECK: dtc.reshape %{{.*}} : tensor<12x6xf32> -> tensor<3x4x6xf32>
func.func @forward(%x: tensor<1x4x6xf32> {dtc.role = #dtc.role<input, "x">},
                   %p: tensor<1x4x6xf32> {dtc.role = #dtc.role<parameter, "p">}) -> tensor<1x4x6xf32> {
  %0 = arith.addf %x, %p : tensor<1x4x6xf32>
  %1 = dtc.reshape %0 : tensor<1x4x6xf32> -> tensor<4x6xf32>
  %2 = math.exp %1 : tensor<4x6xf32>
  %3 = dtc.reshape %2 : tensor<4x6xf32> -> tensor<1x4x6xf32>
  return %3 : tensor<1x4x6xf32>
}
