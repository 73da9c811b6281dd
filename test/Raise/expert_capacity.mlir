// RUN: dtc-opt --split-input-file --dtc-expert-slots="capacity=1" %s | FileCheck %s
// RUN: dtc-opt --split-input-file --dtc-expert-slots="capacity=1 sections=4 drops" %s | FileCheck %s --check-prefix=DROPS
// RUN: dtc-opt --split-input-file --dtc-expert-slots="capacity=2" %s | FileCheck %s --check-prefix=EXACT
// RUN: dtc-opt --split-input-file --dtc-expert-slots="capacity=1.1 parts=2" %s | FileCheck %s --check-prefix=ODD
// RUN: dtc-opt --split-input-file --dtc-expert-slots="each" %s | FileCheck %s --check-prefix=EACH
// RUN: dtc-opt --split-input-file --dtc-expert-slots="each parts=2" %s | FileCheck %s --check-prefix=PARTS

// 8 tokens with two choices each, of 4 experts: an average one gets 4 rows. Each expert has its slots, whatever ranks there
// are, and is multiplied with all of them. Rows whose expert is full are told.
// CHECK-LABEL: func @forward
// CHECK-SAME: -> (tensor<2x16x6xf32>, tensor<2x16xi1> {dtc.role = #dtc.role<count, "overflow:layer 1
// CHECK: %[[C:.*]] = dtc.reshape %{{.*}} : tensor<16x2xi64> -> tensor<2x16xi64>
// CHECK: %[[S:.*]] = dtc.expert_slots %[[C]] experts 4 sections 1 parts 4 capacity 4 : tensor<2x16xi64>
// CHECK: %[[NONE:.*]] = arith.cmpi slt, %[[S]], %{{.*}} : tensor<2x16xi64>
// CHECK: %[[LOST:.*]] = arith.andi %{{.*}}, %[[NONE]] : tensor<2x16xi1>
// CHECK: %[[IN:.*]] = dtc.to_slots %arg0, %[[S]] : tensor<2x16x6xf32>, tensor<2x16xi64> -> tensor<2x4x4x6xf32>
// CHECK: %[[UP:.*]] = dtc.contract %[[IN]] [0, 2, 1, 4], %arg1 [2, 3, 4] -> [0, 2, 1, 3] : {{.*}} -> tensor<2x4x4x10xf32>
// CHECK: %[[BIAS:.*]] = dtc.gather %arg2, %{{.*}} axis 0 : tensor<4x10xf32>, tensor<2x4x4xi64> -> tensor<2x4x4x10xf32>
// CHECK: arith.addf %[[UP]], %[[BIAS]]
// CHECK: dtc.contract
// CHECK: %[[OUT:.*]] = dtc.from_slots %{{.*}}, %[[S]] : tensor<2x4x4x6xf32>, tensor<2x16xi64> -> tensor<2x16x6xf32>
// CHECK: return %[[OUT]], %[[LOST]]

// A section of two tokens gives each expert one slot.
// DROPS: tensor<2x16xi1> {dtc.role = #dtc.role<count, "dropped_tokens:layer 1
// DROPS: dtc.expert_slots %{{.*}} experts 4 sections 4 parts 4 capacity 1 : tensor<2x16xi64>
// DROPS: dtc.to_slots %arg0, %{{.*}} -> tensor<2x4x4x1x6xf32>
// DROPS: dtc.contract %{{.*}} [0, 5, 2, 1, 4], %arg1 [2, 3, 4] -> [0, 5, 2, 1, 3]

// No more tokens can choose an expert than there are: nothing is lost, and nothing counted.
// EXACT-NOT: #dtc.role<count
// EXACT: dtc.expert_slots %{{.*}} experts 4 sections 1 parts 4 capacity 8 apart 2 : tensor<2x16xi64>

// Without a capacity as many, where experts are asked to have slots of their own.
// EACH-LABEL: func @forward
// EACH-NOT: #dtc.role<count
// EACH: dtc.expert_slots %{{.*}} experts 4 sections 1 parts 4 capacity 8 apart 2 : tensor<2x16xi64>
// EACH-NOT: dtc.grouped_contract
// PARTS-LABEL: func @forward
// PARTS: dtc.expert_slots %{{.*}} experts 4 sections 1 parts 4 capacity 8 apart 2 : tensor<2x16xi64>

// Rounded up to whole slots.
// ODD: dtc.expert_slots %{{.*}} experts 4 sections 1 parts 4 capacity 5 : tensor<2x16xi64>
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

// The square root of an empty slot's zeros has no finite derivative: rows are told apart, and slots without one are in no sum.
// CHECK-LABEL: func @forward
// CHECK: dtc.grouped_contract
// Without a capacity they need no slots but those of parts.
// EACH-LABEL: func @forward
// EACH-NOT: dtc.expert_slots
// EACH: dtc.grouped_contract
// PARTS-LABEL: func @forward
// PARTS: dtc.expert_slots %{{.*}} experts 4 sections 1 parts 2 capacity 8 apart 1 : tensor<2x8xi64>
func.func @forward(%x: tensor<2x8x6xf32>, %w: tensor<4x5x6xf32>, %i: tensor<2x8xi64>) -> tensor<2x8x5xf32> {
  %0 = dtc.dispatch %x, %i experts 4 : tensor<2x8x6xf32>, tensor<2x8xi64>
  %1 = dtc.dispatch %i, %i experts 4 : tensor<2x8xi64>, tensor<2x8xi64>
  %2 = dtc.grouped_contract %0 [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %1 [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x5x6xf32>, tensor<2x8xi64> -> tensor<2x8x5xf32>
  %3 = math.sqrt %2 : tensor<2x8x5xf32>
  %4 = dtc.combine %3, %i experts 4 : tensor<2x8x5xf32>, tensor<2x8xi64>
  return %4 : tensor<2x8x5xf32>
}
