// RUN: dtc-opt --split-input-file --dtc-unflatten %s | FileCheck %s

// Merged batch and sequence come apart around a biased projection.
// CHECK-LABEL: func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<8x32x64xf32>, %[[W:.*]]: tensor<64x48xf32>, %[[B:.*]]: tensor<48xf32>)
// CHECK-NEXT: %[[Y:.*]] = dtc.contract %[[X]] [0, 1, 3], %[[W]] [3, 2] -> [0, 1, 2]
// CHECK-NEXT: %[[BIAS:.*]] = dtc.broadcast %[[B]] [2] : tensor<48xf32> -> tensor<8x32x48xf32>
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[Y]], %[[BIAS]]
// CHECK-NEXT: return %[[SUM]]
func.func @forward(%x: tensor<8x32x64xf32>, %w: tensor<64x48xf32>, %b: tensor<48xf32>) -> tensor<8x32x48xf32> {
  %0 = dtc.reshape %x : tensor<8x32x64xf32> -> tensor<256x64xf32>
  %1 = dtc.contract %0 [0, 2], %w [2, 1] -> [0, 1] : tensor<256x64xf32>, tensor<64x48xf32> -> tensor<256x48xf32>
  %2 = dtc.broadcast %b [1] : tensor<48xf32> -> tensor<256x48xf32>
  %3 = arith.addf %1, %2 : tensor<256x48xf32>
  %4 = dtc.reshape %3 : tensor<256x48xf32> -> tensor<8x32x48xf32>
  return %4 : tensor<8x32x48xf32>
}

// -----

// A fused projection that is split in three and by heads: the split is the weight's.
// CHECK-LABEL: func @qkv
// CHECK-SAME: (%[[X:.*]]: tensor<8x32x64xf32>, %[[W:.*]]: tensor<64x192xf32>)
// CHECK: %[[VIEW:.*]] = dtc.reshape %[[W]] : tensor<64x192xf32> -> tensor<64x3x4x16xf32>
// CHECK-NEXT: %[[Y:.*]] = dtc.contract %[[X]] [0, 1, 5], %[[VIEW]] [5, 2, 3, 4] -> [0, 1, 2, 3, 4]
// CHECK-DAG: dtc.slice %[[Y]] offsets [0, 0, 0, 0, 0] {{.*}} -> tensor<8x32x1x4x16xf32>
// CHECK-DAG: dtc.slice %[[Y]] offsets [0, 0, 1, 0, 0] {{.*}} -> tensor<8x32x1x4x16xf32>
// CHECK-DAG: dtc.slice %[[Y]] offsets [0, 0, 2, 0, 0] {{.*}} -> tensor<8x32x1x4x16xf32>
func.func @qkv(%x: tensor<8x32x64xf32>, %w: tensor<64x192xf32>) -> (tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32>) {
  %0 = dtc.contract %x [0, 1, 3], %w [3, 2] -> [0, 1, 2] : tensor<8x32x64xf32>, tensor<64x192xf32> -> tensor<8x32x192xf32>
  %1 = dtc.slice %0 offsets [0, 0, 0] strides [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
  %2 = dtc.slice %0 offsets [0, 0, 64] strides [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
  %3 = dtc.slice %0 offsets [0, 0, 128] strides [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
  %4 = dtc.reshape %1 : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %5 = dtc.reshape %2 : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %6 = dtc.reshape %3 : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  return %4, %5, %6 : tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32>
}

// -----

// Slices that do not cover the value, or that others read whole, stay slices.
// CHECK-LABEL: func @halves_read_whole
// CHECK-NOT: dtc.reshape
func.func @halves_read_whole(%x: tensor<8x32x64xf32>, %w: tensor<64x16xf32>) -> (tensor<8x32x8xf32>, tensor<8x32x8xf32>, tensor<8x32x16xf32>) {
  %0 = dtc.contract %x [0, 1, 3], %w [3, 2] -> [0, 1, 2] : tensor<8x32x64xf32>, tensor<64x16xf32> -> tensor<8x32x16xf32>
  %1 = dtc.slice %0 offsets [0, 0, 0] strides [1, 1, 1] : tensor<8x32x16xf32> -> tensor<8x32x8xf32>
  %2 = dtc.slice %0 offsets [0, 0, 8] strides [1, 1, 1] : tensor<8x32x16xf32> -> tensor<8x32x8xf32>
  return %1, %2, %0 : tensor<8x32x8xf32>, tensor<8x32x8xf32>, tensor<8x32x16xf32>
}

// -----

// Heads that are merged before the output projection are indices of the weight.
// CHECK-LABEL: func @output_projection
// CHECK-SAME: (%[[X:.*]]: tensor<8x4x32x16xf32>, %[[W:.*]]: tensor<64x64xf32>)
// CHECK-NEXT: %[[VIEW:.*]] = dtc.reshape %[[W]] : tensor<64x64xf32> -> tensor<64x4x16xf32>
// CHECK-NEXT: %[[Y:.*]] = dtc.contract %[[X]] [0, 3, 1, 4], %[[VIEW]] [2, 3, 4] -> [0, 1, 2]
// CHECK-NEXT: return %[[Y]]
func.func @output_projection(%x: tensor<8x4x32x16xf32>, %w: tensor<64x64xf32>) -> tensor<8x32x64xf32> {
  %0 = dtc.transpose %x [0, 2, 1, 3] : tensor<8x4x32x16xf32> -> tensor<8x32x4x16xf32>
  %1 = dtc.reshape %0 : tensor<8x32x4x16xf32> -> tensor<8x32x64xf32>
  %2 = dtc.transpose %w [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
  %3 = dtc.contract %1 [0, 1, 3], %2 [3, 2] -> [0, 1, 2] : tensor<8x32x64xf32>, tensor<64x64xf32> -> tensor<8x32x64xf32>
  return %3 : tensor<8x32x64xf32>
}

// -----

// A reshape that only flattens dimensions of size 1 gives the weight no further index.
// CHECK-LABEL: func @flatten
// CHECK-SAME: (%[[X:.*]]: tensor<8x64x1x1xf32>, %[[W:.*]]: tensor<10x64xf32>)
// CHECK: dtc.contract %{{.*}} [0, 2], %[[W]] [1, 2] -> [0, 1] : tensor<8x64xf32>, tensor<10x64xf32>
func.func @flatten(%x: tensor<8x64x1x1xf32>, %w: tensor<10x64xf32>) -> tensor<8x10xf32> {
  %0 = dtc.reshape %x : tensor<8x64x1x1xf32> -> tensor<8x64xf32>
  %1 = dtc.contract %0 [0, 2], %w [1, 2] -> [0, 1] : tensor<8x64xf32>, tensor<10x64xf32> -> tensor<8x10xf32>
  return %1 : tensor<8x10xf32>
}

// -----

// A value that others read under its old shape is reshaped for them.
// CHECK-LABEL: func @two_readers
// CHECK: %[[WIDE:.*]] = dtc.contract {{.*}} -> tensor<8x4x16xf32>
// CHECK: %[[MERGED:.*]] = dtc.reshape %[[WIDE]] : tensor<8x4x16xf32> -> tensor<8x64xf32>
// CHECK: return %[[WIDE]], %[[MERGED]]
func.func @two_readers(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> (tensor<8x4x16xf32>, tensor<8x64xf32>) {
  %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
  %1 = dtc.reshape %0 : tensor<8x64xf32> -> tensor<8x4x16xf32>
  return %1, %0 : tensor<8x4x16xf32>, tensor<8x64xf32>
}

// -----

// Tokens of all samples, which choose and are weighed: batch and sequence stay two dimensions. One of size 1 is no part of
// them, and none to sum over.
// CHECK-LABEL: func @choices
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x6xf32>, %[[S:.*]]: tensor<2x8x4xf32>)
// CHECK: %[[K:.*]] = dtc.top_k %[[S]] : tensor<2x8x4xf32> -> tensor<2x8x3xi64>
// CHECK: %[[SCORES:.*]] = dtc.broadcast %[[S]] [0, 1, 3] : tensor<2x8x4xf32> -> tensor<2x8x3x4xf32>
// CHECK: %[[WEIGHTS:.*]] = dtc.pick %[[SCORES]], %[[K]] : tensor<2x8x3x4xf32>, tensor<2x8x3xi64> -> tensor<2x8x3xf32>
// CHECK: %[[ROWS:.*]] = dtc.broadcast %[[X]] [0, 1, 3] : tensor<2x8x6xf32> -> tensor<2x8x3x6xf32>
// CHECK: %[[EACH:.*]] = dtc.broadcast %[[WEIGHTS]] [0, 1, 2]
// CHECK: %[[WEIGHED:.*]] = arith.mulf %[[ROWS]], %[[EACH]] : tensor<2x8x3x6xf32>
// CHECK: %[[SUM:.*]] = dtc.reduce sum %[[WEIGHED]] [2] : tensor<2x8x3x6xf32> -> tensor<2x8x6xf32>
// CHECK: return %[[SUM]]
func.func @choices(%x: tensor<2x8x6xf32>, %s: tensor<2x8x4xf32>) -> tensor<2x8x6xf32> {
  %0 = dtc.reshape %s : tensor<2x8x4xf32> -> tensor<1x2x8x4xf32>
  %1 = dtc.reshape %0 : tensor<1x2x8x4xf32> -> tensor<16x4xf32>
  %2 = dtc.top_k %1 : tensor<16x4xf32> -> tensor<16x3xi64>
  %3 = dtc.broadcast %1 [0, 2] : tensor<16x4xf32> -> tensor<16x3x4xf32>
  %4 = dtc.pick %3, %2 : tensor<16x3x4xf32>, tensor<16x3xi64> -> tensor<16x3xf32>
  %5 = dtc.reshape %x : tensor<2x8x6xf32> -> tensor<16x6xf32>
  %6 = dtc.broadcast %5 [0, 2] : tensor<16x6xf32> -> tensor<16x3x6xf32>
  %7 = dtc.broadcast %4 [0, 1] : tensor<16x3xf32> -> tensor<16x3x6xf32>
  %8 = arith.mulf %6, %7 : tensor<16x3x6xf32>
  %9 = dtc.reshape %8 : tensor<16x3x6xf32> -> tensor<16x3x6x1xf32>
  %10 = dtc.reduce sum %9 [1] : tensor<16x3x6x1xf32> -> tensor<16x6x1xf32>
  %11 = dtc.reshape %10 : tensor<16x6x1xf32> -> tensor<2x8x6xf32>
  return %11 : tensor<2x8x6xf32>
}

// -----

// Of one sample nothing is merged.
// CHECK-LABEL: func @one_sample
// CHECK: dtc.top_k %{{.*}} : tensor<8x4xf32> -> tensor<8x2xi64>
func.func @one_sample(%s: tensor<1x8x4xf32>) -> tensor<8x2xi64> {
  %0 = dtc.reshape %s : tensor<1x8x4xf32> -> tensor<8x4xf32>
  %1 = dtc.top_k %0 : tensor<8x4xf32> -> tensor<8x2xi64>
  return %1 : tensor<8x2xi64>
}
