// RUN: dtc-opt %s --dtc-partition=regather | FileCheck %s
// RUN: dtc-opt %s --dtc-partition | FileCheck %s --check-prefix=KEPT

// What the forward pass gathered, the backward pass gathers again, once for all that read it.

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x4xf32>
// CHECK: %[[FIRST:.*]] = dist.all_gather %[[X]] dim 0
// CHECK: %[[Y:.*]] = math.tanh %[[FIRST]]
// CHECK: %[[SAME:.*]] = dtc.barrier %[[X]]
// CHECK: %[[AGAIN:.*]] = dist.all_gather %[[SAME]] dim 0
// CHECK: %[[A:.*]] = arith.mulf %[[Y]], %[[AGAIN]]
// CHECK: arith.addf %[[A]], %[[AGAIN]]
// CHECK-NOT: dist.all_gather

// KEPT-LABEL: func.func @f(
// KEPT: %[[ONE:.*]] = dist.all_gather
// KEPT-NOT: dist.all_gather
// KEPT: arith.mulf %{{.*}}, %[[ONE]]

#whole = #dist.op_sharding<@mesh, [{}, {}]>
dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>}) -> tensor<4x4xf32> {
  %y = math.tanh %x {dist.op = #whole, dtc.id = 0 : i64} : tensor<4x4xf32>
  %a = arith.mulf %y, %x {dist.op = #whole, dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>
  %b = arith.addf %a, %x {dist.op = #whole, dtc.backward = #dtc.backward<0, weight_grad>} : tensor<4x4xf32>
  return %b : tensor<4x4xf32>
}
