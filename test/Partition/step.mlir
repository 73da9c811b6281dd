// Gradients stay pending over dp until the update, which resolves them in one
// call with the loss; what tensor parallelism leaves pending is resolved where
// the parameter is split by it.
// RUN: dtc-opt %s -dtc-pipeline=partition | FileCheck %s
// RUN: dtc-opt %s -dtc-pipeline="partition bucket-bytes=1" | FileCheck %s --check-prefix=SINGLE
// RUN: dtc-opt %s -test-partition="trials=40" | FileCheck %s --check-prefix=RANKS

// RANKS: test.partitions = {{[1-9]}}

// CHECK-LABEL: func.func @loss_and_grads
// CHECK-SAME: %arg3: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>
// CHECK-SAME: %arg4: tensor<16x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>
// CHECK-SAME: %arg5: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>
// CHECK-SAME: -> (tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>
// CHECK-SAME: tensor<16x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>
// CHECK-SAME: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{}], sum = {"dp"}>
// CHECK-NOT: dist.all_reduce
// CHECK: return

// CHECK-LABEL: func.func @update
// CHECK-SAME: %arg2: tensor<16x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {}], sum = {"dp"}>
// CHECK: %[[R:.*]]:3 = dist.all_reduce sum %arg2, %arg3, %arg4 on @mesh {"dp"} : tensor<16x4xf32>, tensor<4xf32>, tensor<f32>
// CHECK-NOT: dist.all_reduce
// CHECK: return

// SINGLE-LABEL: func.func @update
// SINGLE-COUNT-3: dist.all_reduce sum %{{.*}} on
// SINGLE: return

dist.mesh @mesh ["dp" = 2]

func.func @loss_and_grads(
    %w: tensor<16x4xf32> {dtc.role = #dtc.role<parameter, "w">},
    %b: tensor<4xf32> {dtc.role = #dtc.role<parameter, "b">},
    %x: tensor<8x16xf32> {dtc.role = #dtc.role<input, "x">, dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>},
    %loss0: tensor<f32> {dtc.role = #dtc.role<loss, "">},
    %w0: tensor<16x4xf32> {dtc.role = #dtc.role<gradient, "w">},
    %b0: tensor<4xf32> {dtc.role = #dtc.role<gradient, "b">})
    -> (tensor<f32> {dtc.role = #dtc.role<loss, "">},
        tensor<16x4xf32> {dtc.role = #dtc.role<gradient, "w">},
        tensor<4xf32> {dtc.role = #dtc.role<gradient, "b">}) {
  %0 = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %1 = dtc.broadcast %b [1] : tensor<4xf32> -> tensor<8x4xf32>
  %2 = arith.addf %0, %1 : tensor<8x4xf32>
  %3 = arith.mulf %2, %2 : tensor<8x4xf32>
  %4 = dtc.reduce sum %3 [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %5 = arith.addf %2, %2 : tensor<8x4xf32>
  %6 = dtc.contract %x [0, 1], %5 [0, 2] -> [1, 2] : tensor<8x16xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %7 = dtc.reduce sum %5 [0] : tensor<8x4xf32> -> tensor<4xf32>
  %8 = dtc.sum %loss0, %4 : tensor<f32>
  %9 = dtc.sum %w0, %6 : tensor<16x4xf32>
  %10 = dtc.sum %b0, %7 : tensor<4xf32>
  return %8, %9, %10 : tensor<f32>, tensor<16x4xf32>, tensor<4xf32>
}

func.func @update(
    %w: tensor<16x4xf32> {dtc.role = #dtc.role<parameter, "w">},
    %b: tensor<4xf32> {dtc.role = #dtc.role<parameter, "b">},
    %dw: tensor<16x4xf32> {dtc.role = #dtc.role<gradient, "w">},
    %db: tensor<4xf32> {dtc.role = #dtc.role<gradient, "b">},
    %loss: tensor<f32> {dtc.role = #dtc.role<loss, "">},
    %lr: tensor<f64> {dtc.role = #dtc.role<scalar, "", lr>})
    -> (tensor<16x4xf32> {dtc.role = #dtc.role<parameter, "w">},
        tensor<4xf32> {dtc.role = #dtc.role<parameter, "b">},
        tensor<f32> {dtc.role = #dtc.role<grad_norm, "">},
        tensor<f32> {dtc.role = #dtc.role<loss, "">}) {
  %half = arith.constant dense<0.5> : tensor<f32>
  %0 = arith.mulf %dw, %dw : tensor<16x4xf32>
  %1 = dtc.reduce sum %0 [0, 1] : tensor<16x4xf32> -> tensor<f32>
  %2 = arith.mulf %db, %db : tensor<4xf32>
  %3 = dtc.reduce sum %2 [0] : tensor<4xf32> -> tensor<f32>
  %4 = dtc.sum %1, %3 : tensor<f32>
  %5 = math.sqrt %4 : tensor<f32>
  %6 = "dtc.sgd_update"(%w, %dw, %lr, %half) <{momentum = 0.0, weightDecay = 0.0}>
      : (tensor<16x4xf32>, tensor<16x4xf32>, tensor<f64>, tensor<f32>) -> tensor<16x4xf32>
  %7 = "dtc.sgd_update"(%b, %db, %lr, %half) <{momentum = 0.0, weightDecay = 0.0}>
      : (tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<f32>) -> tensor<4xf32>
  %8 = arith.mulf %loss, %half : tensor<f32>
  return %6, %7, %5, %8 : tensor<16x4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>
}
