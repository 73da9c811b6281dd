// RUN: dtc-opt --split-input-file --dtc-unflatten %s | FileCheck %s

// Keys are transposed by way of a merged batch and head dimension: nothing is left of it.
// CHECK-LABEL: func @scores
// CHECK-SAME: (%[[Q:.*]]: tensor<8x32x4x16xf32>, %[[K:.*]]: tensor<8x24x4x16xf32>)
// CHECK-NEXT: %[[S:.*]] = dtc.contract %[[Q]] [0, 2, 1, 4], %[[K]] [0, 3, 1, 4] -> [0, 1, 2, 3]
// CHECK-NEXT: return %[[S]]
func.func @scores(%q: tensor<8x32x4x16xf32>, %k: tensor<8x24x4x16xf32>) -> tensor<8x4x32x24xf32> {
  %0 = dtc.transpose %q [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %1 = dtc.transpose %k [0, 2, 1, 3] : tensor<8x24x4x16xf32> -> tensor<8x4x24x16xf32>
  %2 = dtc.reshape %1 : tensor<8x4x24x16xf32> -> tensor<32x24x16xf32>
  %3 = dtc.transpose %2 [0, 2, 1] : tensor<32x24x16xf32> -> tensor<32x16x24xf32>
  %4 = dtc.reshape %3 : tensor<32x16x24xf32> -> tensor<8x4x16x24xf32>
  %5 = dtc.contract %0 [0, 1, 2, 4], %4 [0, 1, 4, 3] -> [0, 1, 2, 3] : tensor<8x4x32x16xf32>, tensor<8x4x16x24xf32> -> tensor<8x4x32x24xf32>
  return %5 : tensor<8x4x32x24xf32>
}

// -----

// A rotation of halves lets the transpose pass; the table is repeated along the other dimension.
// CHECK-LABEL: func @rotary
// CHECK-SAME: (%[[X:.*]]: tensor<8x32x4x16xf32>, %[[COS:.*]]: tensor<32x16xf32>)
// CHECK-DAG: %[[TABLE:.*]] = dtc.broadcast %[[COS]] [1, 3] : tensor<32x16xf32> -> tensor<8x32x4x16xf32>
// CHECK-DAG: %[[LOW:.*]] = dtc.slice %[[X]] offsets [0, 0, 0, 0]
// CHECK-DAG: %[[HIGH:.*]] = dtc.slice %[[X]] offsets [0, 0, 0, 8]
// CHECK: dtc.concat 3(%{{.*}}, %[[LOW]])
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: %[[OUT:.*]] = dtc.transpose %[[SUM]] [0, 2, 1, 3]
// CHECK-NEXT: return %[[OUT]]
func.func @rotary(%x: tensor<8x32x4x16xf32>, %cos: tensor<32x16xf32>) -> tensor<8x4x32x16xf32> {
  %0 = dtc.transpose %x [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %1 = dtc.broadcast %cos [2, 3] : tensor<32x16xf32> -> tensor<8x4x32x16xf32>
  %2 = arith.mulf %0, %1 : tensor<8x4x32x16xf32>
  %3 = dtc.slice %0 offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : tensor<8x4x32x16xf32> -> tensor<8x4x32x8xf32>
  %4 = dtc.slice %0 offsets [0, 0, 0, 8] strides [1, 1, 1, 1] : tensor<8x4x32x16xf32> -> tensor<8x4x32x8xf32>
  %5 = arith.negf %4 : tensor<8x4x32x8xf32>
  %6 = dtc.concat 3(%5, %3) : tensor<8x4x32x8xf32>, tensor<8x4x32x8xf32> -> tensor<8x4x32x16xf32>
  %7 = arith.addf %2, %6 : tensor<8x4x32x16xf32>
  return %7 : tensor<8x4x32x16xf32>
}

// -----

// Heads repeated for grouped queries: the repetition stays behind its group.
// CHECK-LABEL: func @repeat_heads
// CHECK-SAME: (%[[K:.*]]: tensor<8x32x2x16xf32>)
// CHECK-NEXT: %[[WIDE:.*]] = dtc.broadcast %[[K]] [0, 1, 2, 4] : tensor<8x32x2x16xf32> -> tensor<8x32x2x3x16xf32>
// CHECK-NEXT: %[[HEADS:.*]] = dtc.reshape %[[WIDE]] : tensor<8x32x2x3x16xf32> -> tensor<8x32x6x16xf32>
// CHECK-NEXT: dtc.transpose %[[HEADS]] [0, 2, 1, 3]
func.func @repeat_heads(%k: tensor<8x32x2x16xf32>) -> tensor<8x6x32x16xf32> {
  %0 = dtc.transpose %k [0, 2, 1, 3] : tensor<8x32x2x16xf32> -> tensor<8x2x32x16xf32>
  %1 = dtc.broadcast %0 [0, 1, 3, 4] : tensor<8x2x32x16xf32> -> tensor<8x2x3x32x16xf32>
  %2 = dtc.reshape %1 : tensor<8x2x3x32x16xf32> -> tensor<8x6x32x16xf32>
  return %2 : tensor<8x6x32x16xf32>
}

// -----

// What is merged out of order cannot pass: the transpose stays above the reshape.
// CHECK-LABEL: func @merge_after_transpose
// CHECK: dtc.transpose
// CHECK-NEXT: dtc.reshape
func.func @merge_after_transpose(%x: tensor<8x32x4x16xf32>) -> tensor<8x128x16xf32> {
  %0 = dtc.transpose %x [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %1 = dtc.reshape %0 : tensor<8x4x32x16xf32> -> tensor<8x128x16xf32>
  return %1 : tensor<8x128x16xf32>
}

// -----

// Of two that are repeated in different orders, neither is turned for the other: that would never end.
// CHECK-LABEL: func @two_broadcasts
// CHECK-SAME: (%[[A:.*]]: tensor<7x8x16x32xf32>, %[[B:.*]]: tensor<8x16x2x7xf32>)
// CHECK-DAG: %[[WIDE_A:.*]] = dtc.broadcast %[[A]] [0, 1, 2, 3]
// CHECK-DAG: %[[WIDE_B:.*]] = dtc.broadcast %[[B]] [0, 1, 3, 4]
// CHECK: %[[TURNED:.*]] = dtc.transpose %[[WIDE_B]] [4, 0, 1, 2, 3]
// CHECK-NEXT: arith.mulf %[[WIDE_A]], %[[TURNED]]
func.func @two_broadcasts(%a: tensor<7x8x16x32xf32>, %b: tensor<8x16x2x7xf32>) -> tensor<7x8x16x32x2xf32> {
  %0 = dtc.broadcast %a [0, 1, 2, 3] : tensor<7x8x16x32xf32> -> tensor<7x8x16x32x2xf32>
  %1 = dtc.broadcast %b [0, 1, 3, 4] : tensor<8x16x2x7xf32> -> tensor<8x16x32x2x7xf32>
  %2 = dtc.transpose %1 [4, 0, 1, 2, 3] : tensor<8x16x32x2x7xf32> -> tensor<7x8x16x32x2xf32>
  %3 = arith.mulf %0, %2 : tensor<7x8x16x32x2xf32>
  return %3 : tensor<7x8x16x32x2xf32>
}
