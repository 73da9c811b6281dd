// RUN: dtc-opt --split-input-file --dtc-key-dropout %s | FileCheck %s
// RUN: dtc-opt --split-input-file --dtc-pipeline="raise batch=6" %s | FileCheck %s --check-prefix=REBATCHED

// Numbers follow the order of the ops; a batch inside of a dimension gets one of its own.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<4xi64> {dtc.role = #dtc.role<input, "dropout_keys">}
// CHECK: dtc.dropout %{{.*}} keys %[[K]] : tensor<4xi64> ratio 1.000000e-01 : tensor<4x3x5xf32>
// CHECK: %[[T:.*]] = dtc.transpose
// CHECK: dtc.dropout %[[T]] keys %[[K]] : tensor<4xi64> ratio 2.000000e-01 {batch = 1 : i64, number = 1 : i64} : tensor<3x4x5xf32>
// CHECK: %[[L:.*]] = dtc.dropout %{{.*}} keys %[[K]] : tensor<4xi64> ratio 3.000000e-01 {batch = 1 : i64, number = 2 : i64} : tensor<3x4x5xf32>
// CHECK: dtc.reshape %[[L]] : tensor<3x4x5xf32> -> tensor<12x5xf32>
// REBATCHED-LABEL: func.func @forward(
// REBATCHED-SAME: %[[K:[a-z0-9]+]]: tensor<6xi64> {dtc.role = #dtc.role<input, "dropout_keys">}
// REBATCHED: dtc.dropout %{{.*}} keys %[[K]] {{.*}} : tensor<6x3x5xf32>
func.func @forward(%x: tensor<4x3x5xf32> {dtc.role = #dtc.role<input, "x">}) -> (tensor<12x5xf32>) {
  %0 = dtc.dropout %x ratio 1.0e-1 : tensor<4x3x5xf32>
  %1 = dtc.transpose %0 [1, 0, 2] : tensor<4x3x5xf32> -> tensor<3x4x5xf32>
  %2 = dtc.dropout %1 ratio 2.0e-1 : tensor<3x4x5xf32>
  %3 = dtc.reshape %2 : tensor<3x4x5xf32> -> tensor<12x5xf32>
  %4 = dtc.dropout %3 ratio 3.0e-1 : tensor<12x5xf32>
  return %4 : tensor<12x5xf32>
}

// -----

// Equal ones aren't one; an op that mixes samples ends the batch, and what comes before has it.
// CHECK-LABEL: func.func @forward(
// CHECK: dtc.dropout %[[X:.*]] keys %{{.*}} ratio 1.000000e-01 : tensor<6x3xf32>
// CHECK: dtc.dropout %[[X]] keys %{{.*}} {number = 1 : i64} : tensor<6x3xf32>
func.func @forward(%x: tensor<6x3xf32> {dtc.role = #dtc.role<input, "x">}) -> (tensor<6x3xf32>, tensor<f32>) {
  %0 = dtc.dropout %x ratio 1.0e-1 : tensor<6x3xf32>
  %1 = dtc.dropout %x ratio 1.0e-1 : tensor<6x3xf32>
  %2 = arith.addf %0, %1 : tensor<6x3xf32>
  %3 = dtc.reduce sum %2 [0, 1] : tensor<6x3xf32> -> tensor<f32>
  return %2, %3 : tensor<6x3xf32>, tensor<f32>
}
