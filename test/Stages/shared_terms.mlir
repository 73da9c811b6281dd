// RUN: dtc-opt %s --dtc-cut-stages | FileCheck %s

// Stages 1 and 2 of four have terms of a weight's gradient. They lie on ranks 1 and 0, as two ranks have two
// stages each. The terms are added in the order of the stages, as on four ranks.

// CHECK: module @rank0
// CHECK-LABEL: func.func @update(
// CHECK: dist.stage_sum %{{.*}} on @mesh stages [1, 0] : tensor<4x4xf32>
// CHECK: module @rank1
// CHECK-LABEL: func.func @update(
// CHECK: dist.stage_sum %{{.*}} on @mesh stages [1, 0] : tensor<4x4xf32>
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>, array<i64: 0, 1>, array<i64: 2, 3>]}
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
    %h = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 1 : i64, dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %a = math.tanh %h {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 1 : i64, dtc.id = 1 : i64} : tensor<8x4xf32>
    %mask = arith.constant {dtc.id = 2 : i64} dense<2.0> : tensor<8x4xf32>
    %y = dtc.contract %a [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 2 : i64, dtc.id = 3 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %s = dtc.reduce sum %y [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 2 : i64, dtc.id = 4 : i64} : tensor<8x4xf32> -> tensor<f32>
    %i = dtc.broadcast %n [] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 2 : i64, dtc.backward = #dtc.backward<4, input_grad>} : tensor<f32> -> tensor<8x4xf32>
    %w1 = dtc.contract %a [2, 0], %i [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 2 : i64, dtc.backward = #dtc.backward<3, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %da = dtc.contract %i [0, 2], %w [1, 2] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 2 : i64, dtc.backward = #dtc.backward<3, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %dh = arith.mulf %da, %mask {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>
    %w0 = dtc.contract %x [2, 0], %dh [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"dp"}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %dw = dtc.sum %w1, %w0 {dist.stage = 1 : i64, dtc.backward = #dtc.backward<0, accumulate>} : tensor<4x4xf32>
    %lo = dtc.sum %l, %s {dist.stage = 2 : i64, dtc.backward = #dtc.backward<4, accumulate>} : tensor<f32>
    %go = dtc.sum %g, %dw {dist.stage = 1 : i64, dtc.backward = #dtc.backward<0, accumulate>} : tensor<4x4xf32>
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
