// RUN: dtc-opt %s --dtc-cut-stages --verify-roundtrip | FileCheck %s

// y = tanh(x w) w in two stages of two ranks: the weight is tied. What crosses arrives as an inbox in
// the layout in which it is made; sums that pend are completed before (%dh is pending nowhere here).

// Nothing is left of the whole step.
// CHECK-NOT: @loss_and_grads

// CHECK: module @rank0 {
// CHECK-NEXT: dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
// CHECK-NEXT: dtc.parameter trainable @w
// CHECK: func.func @stage(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">}
// CHECK-SAME: %[[X:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">}
// CHECK-SAME: %[[SO_FAR:[^:]*]]: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}
// CHECK-SAME: %[[DY:[^:]*]]: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>, dtc.role = #dtc.role<inbox, "gradient 0 to stage 0">, dtc.runs = #dtc.runs<microbatch, input_grad>}
// CHECK-SAME: -> (tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}, tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>, dtc.role = #dtc.role<outbox, "activation 0 to stage 1">, dtc.runs = #dtc.runs<microbatch, forward>})
// CHECK-SAME: dtc.runs = #dtc.runs<microbatch, forward|backward>
// CHECK-NEXT: %[[H:.*]] = dtc.contract %[[X]] [0, 2], %[[W]]
// CHECK-NEXT: %[[A:.*]] = math.tanh %[[H]]
// The mask belongs to no stage: who reads it makes it.
// CHECK-NEXT: %[[MASK:.*]] = arith.constant
// CHECK-NEXT: %[[DH:.*]] = arith.mulf %[[DY]], %[[MASK]]
// CHECK-NEXT: %[[W0:.*]] = dtc.contract %[[X]] [2, 0], %[[DH]]
// Its own terms of the weight's gradient, added to earlier microbatches'.
// CHECK-NEXT: %[[SUM:.*]] = dtc.sum %[[SO_FAR]], %[[W0]]
// CHECK-NOT: dist.stage
// CHECK: return %[[SUM]], %[[A]]

// It has no loss and no count: its update adds zeros to the step vector.
// CHECK-NOT: @prologue
// CHECK-LABEL: func.func @update(
// CHECK-NOT: #dtc.role<loss
// CHECK-SAME: {
// CHECK: %[[G:.*]] = dist.stage_sum %{{.*}} on @mesh stages [0, 1] : tensor<4x4xf32>
// CHECK: %[[R:.*]] = dtc.reduce sum
// CHECK: %[[B:.*]] = dtc.reduce sum
// CHECK: %[[BAD:.*]] = dtc.sum %[[B]] : tensor<f32>
// CHECK: %[[SQUARES:.*]] = dtc.sum %[[R]] : tensor<f32>
// CHECK: %[[OWN:.*]]:5 = dtc.step_vector %[[ZERO:.*]], %{{.*}}, %[[BAD]], %[[SQUARES]], %{{.*}}
// CHECK: %[[STEP:.*]]:5 = dist.stage_sum %[[OWN]]#0, %[[OWN]]#1, %[[OWN]]#2, %[[OWN]]#3, %[[OWN]]#4 on @mesh stages [0, 1] : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
// CHECK: %[[NORM:.*]] = dtc.sum %[[STEP]]#3, %[[STEP]]#4
// CHECK: dtc.sgd_update %{{.*}}, %[[G]]
// CHECK: arith.divf %[[STEP]]#0, %[[STEP]]#1

// CHECK: module @rank1 {
// CHECK: func.func @stage(
// CHECK-SAME: #dtc.role<inbox, "activation 0 to stage 1">
// CHECK-SAME: #dtc.role<loss, "">
// CHECK-SAME: #dtc.role<outbox, "gradient 0 to stage 0">
// CHECK-LABEL: func.func @prologue
// The weight counts for the norm on rank 0.
// CHECK-LABEL: func.func @update(
// CHECK: dist.stage_sum %{{.*}} on @mesh stages [0, 1] : tensor<4x4xf32>
// CHECK: dtc.step_vector
// CHECK: dist.stage_sum
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
  dtc.parameter trainable @w : tensor<4x4xf32> file tensor<4x4xf32>
  func.func @prologue() -> (tensor<f32> {dtc.role = #dtc.role<count, "">}) attributes {dtc.runs = #dtc.runs<step>} {
    %0 = arith.constant dense<32.0> : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @loss_and_grads(
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
      %n: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>},
      %l: tensor<f32> {dtc.role = #dtc.role<loss, "">},
      %g: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<f32> {dtc.role = #dtc.role<loss, "">}, tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %h = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 0 : i64, dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %a = math.tanh %h {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 0 : i64, dtc.id = 1 : i64} : tensor<8x4xf32>
    %mask = arith.constant {dtc.id = 2 : i64} dense<2.0> : tensor<8x4xf32>
    %y = dtc.contract %a [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 1 : i64, dtc.id = 3 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %s = dtc.reduce sum %y [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 1 : i64, dtc.id = 4 : i64} : tensor<8x4xf32> -> tensor<f32>
    %i = dtc.broadcast %n [] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<4, input_grad>} : tensor<f32> -> tensor<8x4xf32>
    %w1 = dtc.contract %a [2, 0], %i [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<3, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %da = dtc.contract %i [0, 2], %w [1, 2] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<3, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %dh = arith.mulf %da, %mask {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 0 : i64, dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>
    %w0 = dtc.contract %x [2, 0], %dh [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %dw = dtc.sum %w1, %w0 {dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, accumulate>} : tensor<4x4xf32>
    %lo = dtc.sum %l, %s {dist.stage = 1 : i64, dtc.backward = #dtc.backward<4, accumulate>} : tensor<f32>
    %go = dtc.sum %g, %dw {dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, accumulate>} : tensor<4x4xf32>
    return %lo, %go : tensor<f32>, tensor<4x4xf32>
  }
  func.func @update(
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %g: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">},
      %l: tensor<f32> {dtc.role = #dtc.role<loss, "">},
      %lr: tensor<f64> {dtc.role = #dtc.role<scalar, "", lr>},
      %n: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">}, tensor<f32> {dtc.role = #dtc.role<grad_norm, "">}, tensor<f32> {dtc.role = #dtc.role<loss, "">}, tensor<f32> {dtc.role = #dtc.role<count, "non_finite">})
      attributes {dtc.runs = #dtc.runs<step>} {
    %q = arith.mulf %g, %g : tensor<4x4xf32>
    %r = dtc.reduce sum %q [0, 1] : tensor<4x4xf32> -> tensor<f32>
    %b = dtc.reduce sum %g [0, 1] : tensor<4x4xf32> -> tensor<f32>
    %t = dtc.sum %r : tensor<f32>
    %f = dtc.sum %b : tensor<f32>
    %v:4 = dtc.step_vector %l, %n, %f, %t : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    %norm = math.sqrt %v#3 : tensor<f32>
    %scale = arith.constant dense<1.0> : tensor<f32>
    %new = dtc.sgd_update %w, %g, %lr, %scale {momentum = 0.0 : f64, weightDecay = 0.0 : f64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f64>, tensor<f32>) -> tensor<4x4xf32>
    %mean = arith.divf %v#0, %v#1 : tensor<f32>
    return %new, %norm, %mean, %v#2 : tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}
