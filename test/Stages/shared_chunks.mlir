// RUN: dtc-opt %s --dtc-cut-stages | FileCheck %s
// RUN: sed 's/%w2, %w1, %w0/%w2, %w0/' %s | dtc-opt --dtc-cut-stages | FileCheck %s --check-prefix=APART

// Stages 0, 1 and 2 have terms of a weight's gradient, and lie on ranks 0, 1 and 0. Each stage adds up its own. The
// last is added to the sum of the others, which rank 1 gives: as on three ranks, these are added first.

// CHECK: module @rank0
// CHECK-LABEL: func.func @stage(
// CHECK-SAME: dtc.role = #dtc.role<gradient, "w">
// CHECK-LABEL: func.func @stage_1(
// CHECK-SAME: dtc.role = #dtc.role<gradient, "w of chunk 1">
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[FIRST:[a-z0-9]+]]: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}
// CHECK-SAME: %[[LAST:[a-z0-9]+]]: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w of chunk 1">}
// CHECK: dist.stage_sum %[[FIRST]] on @mesh stages [0, 1]
// CHECK: %[[ALL:.*]] = dist.stage_sum %[[LAST]] on @mesh stages [1, 0]
// CHECK: arith.mulf %[[ALL]], %[[ALL]]
// CHECK: module @rank1
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[TERM:[a-z0-9]+]]: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}
// CHECK: %[[SUM:.*]] = dist.stage_sum %[[TERM]] on @mesh stages [0, 1]
// CHECK: %[[TOTAL:.*]] = dist.stage_sum %[[SUM]] on @mesh stages [1, 0]
// CHECK: dtc.sgd_update %{{.*}}, %[[TOTAL]]

// Without a term of stage 1, rank 0 adds up the others alone. What pends is completed before, as it were on two ranks.

// APART: module @rank0
// APART-LABEL: func.func @update(
// APART-SAME: %[[FIRST:[a-z0-9]+]]: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}
// APART-SAME: %[[LAST:[a-z0-9]+]]: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w of chunk 1">}
// APART: %[[A:.*]] = dist.stage_sum %[[FIRST]] on @mesh stages [0]
// APART: %[[B:.*]] = dist.stage_sum %[[LAST]] on @mesh stages [0]
// APART: %[[OWN:.*]] = dtc.sum %[[A]], %[[B]]
// APART: dist.stage_sum %[[OWN]] on @mesh stages [0, 1]
// APART: module @rank1
// APART-LABEL: func.func @update(
// APART-NOT: #dtc.role<gradient, "w
// APART: %[[NONE:.*]] = arith.constant dense<0.0
// APART: dist.stage_sum %[[NONE]] on @mesh stages [0, 1]
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>, array<i64: 0, 1>]}
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
    %a = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 0 : i64, dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %b = dtc.contract %a [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 1 : i64, dtc.id = 1 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %y = dtc.contract %b [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 2 : i64, dtc.id = 2 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %s = dtc.reduce sum %y [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 2 : i64, dtc.id = 3 : i64} : tensor<8x4xf32> -> tensor<f32>
    %i = dtc.broadcast %n [] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 2 : i64, dtc.backward = #dtc.backward<3, input_grad>} : tensor<f32> -> tensor<8x4xf32>
    %w2 = dtc.contract %b [2, 0], %i [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 2 : i64, dtc.backward = #dtc.backward<2, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %db = dtc.contract %i [0, 2], %w [1, 2] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 2 : i64, dtc.backward = #dtc.backward<2, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %w1 = dtc.contract %a [2, 0], %db [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<1, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %da = dtc.contract %db [0, 2], %w [1, 2] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %w0 = dtc.contract %x [2, 0], %da [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %dw = dtc.sum %w2, %w1, %w0 {dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, accumulate>} : tensor<4x4xf32>
    %lo = dtc.sum %l, %s {dist.stage = 2 : i64, dtc.backward = #dtc.backward<3, accumulate>} : tensor<f32>
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
