// RUN: dtc-opt %s --dtc-cut-stages --verify-roundtrip | FileCheck %s

// The step of cut_stages.mlir on two meshes: stage 0 on rows of dp=2, stage 1 on columns of tp=2. What
// crosses is the shard of one mesh on its side and that of the other on the other side, both cut in
// pieces of 4x2.

// CHECK-NOT: @group1

// Every mesh names the devices of all stages.
// CHECK: module @rank0 {
// CHECK-NEXT: dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
// CHECK: func.func @stage(
// Device 0 has the upper rows of the gradient, and gets their columns from 2 and 3; device 1 the lower ones.
// CHECK-SAME: tensor<8x4xf32> {dist.begins = [array<i64: 0, 16>, array<i64: 2, 18>], dist.message = "gradient 0 to stage 0", dist.pieces = array<i64: 1, 2>, dist.senders = [array<i32: 2, 2>, array<i32: 3, 3>], dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>, dtc.role = #dtc.role<inbox, "gradient 0 to stage 0">
// CHECK-SAME: -> (tensor<4x4xf32>
// CHECK-SAME: tensor<8x4xf32> {dist.begins = [array<i64: 0, 16>, array<i64: 2, 18>], dist.message = "activation 0 to stage 1", dist.pieces = array<i64: 1, 2>, dist.receivers = [array<i32: 2, 2>, array<i32: 3, 3>], dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>, dtc.role = #dtc.role<outbox, "activation 0 to stage 1">
// CHECK: math.tanh %{{.*}} {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>
// The tied weight's terms lie on meshes that are apart.
// CHECK: dist.stage_sum %{{.*}} on @mesh stages [0, 1] apart {dist.op = #dist.op_sharding<@mesh, [{}, {}]>} : tensor<4x4xf32>

// CHECK: module @rank1 {
// CHECK-NEXT: dist.mesh @mesh ["tp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
// CHECK: func.func @stage(
// CHECK-SAME: tensor<8x4xf32> {dist.begins = [array<i64: 0, 2>, array<i64: 16, 18>], dist.message = "activation 0 to stage 1", dist.pieces = array<i64: 2, 1>, dist.senders = [array<i32: 0, 0>, array<i32: 1, 1>], dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>, dtc.role = #dtc.role<inbox, "activation 0 to stage 1">
// CHECK-SAME: tensor<8x4xf32> {dist.begins = [array<i64: 0, 2>, array<i64: 16, 18>], dist.message = "gradient 0 to stage 0", dist.pieces = array<i64: 2, 1>, dist.receivers = [array<i32: 0, 0>, array<i32: 1, 1>], dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>, dtc.role = #dtc.role<outbox, "gradient 0 to stage 0">
// CHECK: dtc.contract %{{.*}} {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}, {}]>, dtc.id = 3
// CHECK: dist.stage_sum %{{.*}} on @mesh stages [0, 1] apart
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64>]}
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
  module @group1 {
    dist.mesh @mesh ["tp" = 2] {dist.devices = [array<i64>, array<i64: 2, 3>]}
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
      %h = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}, {}]>, dist.stage = 0 : i64, dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
      %a = math.tanh %h {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}]>, dist.stage = 0 : i64, dtc.id = 1 : i64} : tensor<8x4xf32>
      %mask = arith.constant {dtc.id = 2 : i64} dense<2.0> : tensor<8x4xf32>
      %y = dtc.contract %a [0, 2], %w [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}, {}]>, dist.stage = 1 : i64, dtc.id = 3 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
      %s = dtc.reduce sum %y [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}]>, dist.stage = 1 : i64, dtc.id = 4 : i64} : tensor<8x4xf32> -> tensor<f32>
      %i = dtc.broadcast %n [] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<4, input_grad>} : tensor<f32> -> tensor<8x4xf32>
      %w1 = dtc.contract %a [2, 0], %i [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}, {}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<3, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
      %da = dtc.contract %i [0, 2], %w [1, 2] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}, {}]>, dist.stage = 1 : i64, dtc.backward = #dtc.backward<3, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
      %dh = arith.mulf %da, %mask {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}]>, dist.stage = 0 : i64, dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>
      %w0 = dtc.contract %x [2, 0], %dh [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{}, {"tp"}, {}]>, dist.stage = 0 : i64, dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
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
}
