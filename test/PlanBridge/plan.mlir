// RUN: dtc-opt --dtc-train="optimizer=sgd" "--dtc-plan=devices=4 plan=dp=2,tp=2" %s | FileCheck %s
// RUN: dtc-opt --dtc-train="optimizer=sgd" "--dtc-plan=devices=4 plan=dp=2,tp=2" --dtc-pipeline=partition %s | FileCheck %s --check-prefix=LOCAL

// The mesh has both degrees; weights are split over tp only, data over dp.
// CHECK: dist.mesh @mesh ["dp" = 2, "tp" = 2]
// CHECK-LABEL: func.func @loss_and_grads(
// CHECK-SAME: tensor<512x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>, dtc.role = #dtc.role<parameter, "up">}
// CHECK-SAME: tensor<2048x512xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>, dtc.role = #dtc.role<parameter, "down">}
// CHECK-SAME: tensor<16x512xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>, dtc.role = #dtc.role<input, "x">}
// CHECK-SAME: tensor<16xi64> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>, dtc.limit = 512 : i64, dtc.role = #dtc.role<target, "target">}
// Gradients have their parameter's layout; what is pending is found later.
// CHECK-SAME: -> (
// CHECK-SAME: tensor<512x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>, dtc.role = #dtc.role<gradient, "up">}

// Column, then row parallel; the batch is split throughout. Factors are numbered
// as the contraction's indices.
// CHECK: dtc.contract %{{.*}} [0, 2], %{{.*}} [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {"tp"}, {}]>
// CHECK: dtc.contract %{{.*}} [0, 2], %{{.*}} [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {"tp"}]>
// The backward pass follows.
// CHECK: dtc.contract {{.*}} {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {"tp"}]>, dtc.backward = #dtc.backward<

// CHECK-LABEL: func.func @prologue(
// CHECK-SAME: dist.sharding = #dist.sharding<@mesh, [{"dp"}]>, dtc.role = #dtc.role<target, "target">
// CHECK-LABEL: func.func @update(
// CHECK-SAME: tensor<512x2048xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>, dtc.role = #dtc.role<parameter, "up">}

// LOCAL-LABEL: func.func @loss_and_grads(
// LOCAL-SAME: tensor<512x1024xf32>
// LOCAL-SAME: tensor<8x512xf32>
module {
  dtc.parameter trainable @up : tensor<512x2048xf32> file tensor<512x2048xf32>
  dtc.parameter trainable @down : tensor<2048x512xf32> file tensor<2048x512xf32>
  func.func @forward(
      %up: tensor<512x2048xf32> {dtc.role = #dtc.role<parameter, "up">},
      %down: tensor<2048x512xf32> {dtc.role = #dtc.role<parameter, "down">},
      %x: tensor<16x512xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<16x512xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %0 = dtc.contract %x [0, 2], %up [2, 1] -> [0, 1] : tensor<16x512xf32>, tensor<512x2048xf32> -> tensor<16x2048xf32>
    %1 = dtc.activation gelu %0 : tensor<16x2048xf32>
    %2 = dtc.contract %1 [0, 2], %down [2, 1] -> [0, 1] : tensor<16x2048xf32>, tensor<2048x512xf32> -> tensor<16x512xf32>
    return %2 : tensor<16x512xf32>
  }
}
