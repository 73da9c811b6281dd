// RUN: dtc-opt --split-input-file --dtc-expert-slots="parts=2" %s | FileCheck %s
// RUN: dtc-opt --split-input-file --dtc-expert-slots="parts=2 sections=4" %s | FileCheck %s --check-prefix=BOTH
// RUN: dtc-opt --split-input-file --dtc-expert-slots="sections=4" %s | FileCheck %s --check-prefix=CONTEXT
// RUN: dtc-opt --split-input-file --dtc-expert-slots="parts=3" %s | FileCheck %s --check-prefix=SAME
// RUN: dtc-opt --split-input-file --dtc-expert-slots="sections=3" %s | FileCheck %s --check-prefix=SAME
// RUN: dtc-opt --split-input-file --dtc-expert-slots %s | FileCheck %s --check-prefix=SAME

// 8 tokens with two choices each: all 16 rows may choose the two experts of one part. What happens to rows between two products
// happens in slots, and a bias is looked up by the number of the expert among all.
// CHECK-LABEL: func @forward
// CHECK: %[[C:.*]] = dtc.reshape %{{.*}} : tensor<16x2xi64> -> tensor<2x16xi64>
// CHECK: %[[S:.*]] = dtc.expert_slots %[[C]] experts 4 sections 1 parts 2 capacity 16 : tensor<2x16xi64>
// CHECK: %[[IN:.*]] = dtc.to_slots %arg0, %[[S]] : tensor<2x16x6xf32>, tensor<2x16xi64> -> tensor<2x2x16x6xf32>
// CHECK: %[[TO:.*]] = dtc.to_slots %[[C]], %[[S]] : tensor<2x16xi64>, tensor<2x16xi64> -> tensor<2x2x16xi64>
// CHECK: %[[PART:.*]] = dtc.iota 1 : tensor<2x2x16xi64>
// CHECK: %[[EACH:.*]] = arith.constant dense<2> : tensor<2x2x16xi64>
// CHECK: %[[FIRST:.*]] = arith.muli %[[PART]], %[[EACH]]
// CHECK: %[[LOCAL:.*]] = arith.subi %[[TO]], %[[FIRST]]
// CHECK: %[[W:.*]] = dtc.reshape %arg1 : tensor<4x10x6xf32> -> tensor<2x2x10x6xf32>
// CHECK: %[[UP:.*]] = dtc.grouped_contract %[[IN]] [0, 5, 1, 4], %[[W]] [5, 2, 3, 4] -> [0, 5, 1, 3] by %[[LOCAL]] [0, 5, 1] of 2
// CHECK: %[[BIAS:.*]] = dtc.gather %arg2, %[[TO]] axis 0 : tensor<4x10xf32>, tensor<2x2x16xi64> -> tensor<2x2x16x10xf32>
// CHECK: %[[SUM:.*]] = arith.addf %[[UP]], %[[BIAS]]
// CHECK: %[[HALF:.*]] = dtc.slice %[[SUM]] offsets [0, 0, 0, 5] strides [1, 1, 1, 1] : tensor<2x2x16x10xf32> -> tensor<2x2x16x5xf32>
// CHECK: arith.mulf %[[HALF]], %{{.*}} : tensor<2x2x16x5xf32>
// CHECK: dtc.grouped_contract
// CHECK: dtc.from_slots %{{.*}}, %[[S]] : tensor<2x2x16x6xf32>, tensor<2x16xi64> -> tensor<2x16x6xf32>
// CHECK-NOT: dtc.dispatch
// CHECK-NOT: dtc.combine

// Each of four sections has 4 rows, which two slots of each part don't suffice for.
// BOTH: dtc.expert_slots %{{.*}} experts 4 sections 4 parts 2 capacity 4 : tensor<2x16xi64>
// BOTH: dtc.to_slots %arg0, %{{.*}} -> tensor<2x4x2x4x6xf32>
// BOTH: dtc.grouped_contract %{{.*}} [0, 5, 6, 1, 4], %{{.*}} [6, 2, 3, 4] -> [0, 5, 6, 1, 3] by %{{.*}} [0, 5, 6, 1] of 2
// BOTH: dtc.from_slots

// One part has a place for every row where it is.
// CONTEXT-NOT: slots
// CONTEXT: dtc.reshape %arg0 : tensor<2x16x6xf32> -> tensor<2x4x4x6xf32>
// CONTEXT: dtc.grouped_contract %{{.*}} [0, 5, 1, 4], %arg1 [2, 3, 4] -> [0, 5, 1, 3] by %{{.*}} [0, 5, 1] of 2
// CONTEXT-NOT: slots

// SAME: dtc.dispatch
// SAME-NOT: dtc.expert_slots
// SAME: dtc.combine
func.func @forward(%x: tensor<2x16x6xf32>, %w: tensor<4x10x6xf32>, %b: tensor<4x10xf32>, %v: tensor<4x6x5xf32>, %p: tensor<16x4xf32>) -> tensor<2x16x6xf32> {
  %two = arith.constant dense<2.0> : tensor<2x16x5xf32>
  %k = dtc.top_k %p : tensor<16x4xf32> -> tensor<16x2xi64>
  %i = dtc.reshape %k : tensor<16x2xi64> -> tensor<2x16xi64>
  %0 = dtc.dispatch %x, %i experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
  %1 = dtc.dispatch %i, %i experts 4 : tensor<2x16xi64>, tensor<2x16xi64>
  %2 = dtc.grouped_contract %0 [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %1 [0, 1] of 2 : tensor<2x16x6xf32>, tensor<4x10x6xf32>, tensor<2x16xi64> -> tensor<2x16x10xf32>
  %3 = dtc.gather %b, %1 axis 0 : tensor<4x10xf32>, tensor<2x16xi64> -> tensor<2x16x10xf32>
  %4 = arith.addf %2, %3 : tensor<2x16x10xf32>
  %5 = dtc.slice %4 offsets [0, 0, 5] strides [1, 1, 1] : tensor<2x16x10xf32> -> tensor<2x16x5xf32>
  %6 = arith.mulf %5, %two : tensor<2x16x5xf32>
  %7 = dtc.grouped_contract %6 [0, 1, 4], %v [2, 3, 4] -> [0, 1, 3] by %1 [0, 1] of 2 : tensor<2x16x5xf32>, tensor<4x6x5xf32>, tensor<2x16xi64> -> tensor<2x16x6xf32>
  %8 = dtc.combine %7, %i experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
  return %8 : tensor<2x16x6xf32>
}

// -----

// A part of one expert gets no more than one of a token's two rows.
// CHECK-LABEL: func @forward
// CHECK: dtc.expert_slots %{{.*}} experts 2 sections 1 parts 2 capacity 8 apart 2 : tensor<2x16xi64>
func.func @forward(%x: tensor<2x16x6xf32>, %p: tensor<16x2xf32>) -> tensor<2x16x6xf32> {
  %k = dtc.top_k %p : tensor<16x2xf32> -> tensor<16x2xi64>
  %i = dtc.reshape %k : tensor<16x2xi64> -> tensor<2x16xi64>
  %0 = dtc.dispatch %x, %i experts 2 : tensor<2x16x6xf32>, tensor<2x16xi64>
  %1 = dtc.combine %0, %i experts 2 : tensor<2x16x6xf32>, tensor<2x16xi64>
  return %1 : tensor<2x16x6xf32>
}
