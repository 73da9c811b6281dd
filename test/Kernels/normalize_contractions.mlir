// RUN: dtc-opt %s --dtc-normalize-contractions | FileCheck %s

// CHECK-LABEL: @leading_dimensions_merge
func.func @leading_dimensions_merge(%x: tensor<8x32x64xf32>, %w: tensor<64x128xf32>) -> tensor<8x32x128xf32> {
  // CHECK: exec.matmul %arg0, %arg1 batch [] mnk [256, 128, 64] strides [64, 1], [128, 1] -> [128, 1] offsets [0, 0]
  %y = dtc.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : tensor<8x32x64xf32>, tensor<64x128xf32> -> tensor<8x32x128xf32>
  return %y : tensor<8x32x128xf32>
}

// The result's innermost dimension comes from the left operand: they swap.
// CHECK-LABEL: @swap
func.func @swap(%a: tensor<6x4xf32>, %b: tensor<4x5xf32>) -> tensor<5x6xf32> {
  // CHECK: exec.matmul %arg1, %arg0 batch [] mnk [5, 6, 4] strides [1, 5], [1, 4] -> [6, 1]
  %y = dtc.contract %a [0, 2], %b [2, 1] -> [1, 0] : tensor<6x4xf32>, tensor<4x5xf32> -> tensor<5x6xf32>
  return %y : tensor<5x6xf32>
}

// Queries and keys are parts of a fused projection: strides see them there.
// CHECK-LABEL: @slices_become_strides
func.func @slices_become_strides(%qkv: tensor<8x32x3x4x16xf32>) -> tensor<8x4x32x32xf32> {
  // CHECK-NEXT: exec.matmul %arg0, %arg0 batch [8, 4] mnk [32, 32, 16] strides [6144, 16, 192, 1], [6144, 16, 1, 192] -> [4096, 1024, 32, 1] offsets [0, 64]
  // CHECK-NEXT: return
  %q = dtc.slice %qkv offsets [0, 0, 0, 0, 0] strides [1, 1, 1, 1, 1] : tensor<8x32x3x4x16xf32> -> tensor<8x32x1x4x16xf32>
  %k = dtc.slice %qkv offsets [0, 0, 1, 0, 0] strides [1, 1, 1, 1, 1] : tensor<8x32x3x4x16xf32> -> tensor<8x32x1x4x16xf32>
  %q1 = dtc.reshape %q : tensor<8x32x1x4x16xf32> -> tensor<8x32x4x16xf32>
  %k1 = dtc.reshape %k : tensor<8x32x1x4x16xf32> -> tensor<8x32x4x16xf32>
  %p = dtc.contract %q1 [0, 1, 3, 4], %k1 [0, 2, 3, 4] -> [0, 3, 1, 2] : tensor<8x32x4x16xf32>, tensor<8x32x4x16xf32> -> tensor<8x4x32x32xf32>
  return %p : tensor<8x4x32x32xf32>
}

// Key-value heads repeat along a batch dimension of stride 0.
// CHECK-LABEL: @broadcast_repeats
func.func @broadcast_repeats(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>) -> tensor<2x2x2x8x8xf32> {
  // CHECK-NEXT: exec.matmul %arg0, %arg1 batch [2, 2, 2] mnk [8, 8, 16] strides [512, 32, 16, 64, 1], [256, 16, 0, 1, 32] -> [256, 128, 64, 8, 1]
  %q1 = dtc.reshape %q : tensor<2x8x4x16xf32> -> tensor<2x8x2x2x16xf32>
  %k1 = dtc.broadcast %k [0, 1, 2, 4] : tensor<2x8x2x16xf32> -> tensor<2x8x2x2x16xf32>
  %p = dtc.contract %q1 [0, 1, 3, 4, 5], %k1 [0, 2, 3, 4, 5] -> [0, 3, 4, 1, 2] : tensor<2x8x2x2x16xf32>, tensor<2x8x2x2x16xf32> -> tensor<2x2x2x8x8xf32>
  return %p : tensor<2x2x2x8x8xf32>
}

// So they do where they have one dimension with the repeats: each part of it is an index.
// CHECK-LABEL: @merged_heads_repeat
func.func @merged_heads_repeat(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>) -> tensor<2x4x8x8xf32> {
  // CHECK-NEXT: %[[P:.*]] = exec.matmul %arg0, %arg1 batch [2, 2, 2] mnk [8, 8, 16] strides [512, 32, 16, 64, 1], [256, 16, 0, 1, 32] -> [256, 128, 64, 8, 1]
  // CHECK-NEXT: %[[R:.*]] = dtc.reshape %[[P]] : tensor<2x2x2x8x8xf32> -> tensor<2x4x8x8xf32>
  // CHECK-NEXT: return %[[R]]
  %0 = dtc.broadcast %k [0, 1, 2, 4] : tensor<2x8x2x16xf32> -> tensor<2x8x2x2x16xf32>
  %1 = dtc.reshape %0 : tensor<2x8x2x2x16xf32> -> tensor<2x8x4x16xf32>
  %p = dtc.contract %q [0, 1, 3, 4], %1 [0, 2, 3, 4] -> [0, 3, 1, 2] : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x4x8x8xf32>
  return %p : tensor<2x4x8x8xf32>
}

// What repeats along an index that no other operand has is stored.
// CHECK-LABEL: @merged_rows_repeat
func.func @merged_rows_repeat(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  // CHECK: %[[X:.*]] = dtc.reshape
  // CHECK-NEXT: exec.matmul %[[X]], %arg1 batch [] mnk [8, 8, 16]
  %0 = dtc.broadcast %x [0, 2] : tensor<4x16xf32> -> tensor<4x2x16xf32>
  %1 = dtc.reshape %0 : tensor<4x2x16xf32> -> tensor<8x16xf32>
  %y = dtc.contract %1 [0, 2], %w [2, 1] -> [0, 1] : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// Sums over two dimensions in different orders don't merge: the smaller
// operand is brought into the order of the other.
// CHECK-LABEL: @copy_where_needed
func.func @copy_where_needed(%p: tensor<2x2x2x8x32xf32>, %q: tensor<2x8x2x2x16xf32>) -> tensor<2x32x2x16xf32> {
  // CHECK: %[[T:.*]] = dtc.transpose %arg1 [0, 2, 3, 1, 4]
  // CHECK: exec.matmul %arg0, %[[T]] batch [2, 2] mnk [32, 16, 16]
  %d = dtc.contract %p [0, 3, 4, 1, 2], %q [0, 1, 3, 4, 5] -> [0, 2, 3, 5] : tensor<2x2x2x8x32xf32>, tensor<2x8x2x2x16xf32> -> tensor<2x32x2x16xf32>
  return %d : tensor<2x32x2x16xf32>
}

// A slice with gaps in both matrix dimensions is made dense first.
// CHECK-LABEL: @gaps
func.func @gaps(%a: tensor<8x8xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[S:.*]] = dtc.slice
  // CHECK: exec.matmul %[[S]], %arg1 batch [] mnk [4, 4, 4] strides [4, 1], [4, 1] -> [4, 1] offsets [0, 0]
  %s = dtc.slice %a offsets [1, 0] strides [2, 2] : tensor<8x8xf32> -> tensor<4x4xf32>
  %y = dtc.contract %s [0, 2], %b [2, 1] -> [0, 1] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// CHECK-LABEL: @innermost_batch
func.func @innermost_batch(%a: tensor<3x5x4xf32>, %b: tensor<5x6x4xf32>) -> tensor<3x6x4xf32> {
  // CHECK-COUNT-3: dtc.transpose
  // CHECK-NOT: dtc.contract
  %y = dtc.contract %a [0, 2, 3], %b [2, 1, 3] -> [0, 1, 3] : tensor<3x5x4xf32>, tensor<5x6x4xf32> -> tensor<3x6x4xf32>
  return %y : tensor<3x6x4xf32>
}

// CHECK-LABEL: @keeps_attributes
func.func @keeps_attributes(%a: tensor<4x4xbf16>, %b: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // CHECK: exec.matmul {{.*}} {dtc.id = 7 : i64} : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
  %y = dtc.contract %a [0, 2], %b [2, 1] -> [0, 1] {dtc.id = 7 : i64} : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// The gradient of experts' weights is a sum over samples and their slots. What lies side by side stays so in the copy, which
// the product takes transposed.
// CHECK-LABEL: @copies_keep_runs
func.func @copies_keep_runs(%g: tensor<2x8x16x32xf32>, %x: tensor<8x2x16x64xf32>) -> tensor<8x32x64xf32> {
  // CHECK: %[[T:.*]] = dtc.transpose %arg0 [1, 0, 2, 3]
  // CHECK: exec.matmul %[[T]], %arg1 batch [8] mnk [32, 64, 32] strides [1024, 1, 32], [2048, 64, 1] -> [2048, 64, 1] offsets [0, 0]
  %0 = dtc.contract %g [1, 0, 2, 3], %x [0, 1, 2, 4] -> [0, 3, 4] : tensor<2x8x16x32xf32>, tensor<8x2x16x64xf32> -> tensor<8x32x64xf32>
  return %0 : tensor<8x32x64xf32>
}

// CHECK-LABEL: @copies_keep_runs_of_rhs
func.func @copies_keep_runs_of_rhs(%x: tensor<64x4x16xf32>, %w: tensor<4x8x16xf32>) -> tensor<64x8xf32> {
  // CHECK: %[[T:.*]] = dtc.transpose %arg1 [1, 0, 2]
  // CHECK: exec.matmul %arg0, %[[T]] batch [] mnk [64, 8, 64] strides [64, 1], [1, 64] -> [8, 1] offsets [0, 0]
  %0 = dtc.contract %x [0, 1, 2], %w [1, 3, 2] -> [0, 3] : tensor<64x4x16xf32>, tensor<4x8x16xf32> -> tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}
