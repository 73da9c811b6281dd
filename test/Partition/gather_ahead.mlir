// What is computed again of a parameter alone reads it behind a barrier. Before that it is gathered.
// RUN: dtc-opt %s --dtc-recompute --dtc-partition | FileCheck %s

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[N:[^:]*]]: tensor<2xf32>
// CHECK: %[[FIRST:.*]] = dist.all_gather %[[N]] dim 0
// CHECK: math.exp %[[FIRST]]
// CHECK: %[[PART:.*]] = dtc.barrier %[[N]]
// CHECK: %[[ALL:.*]] = dist.all_gather %[[PART]] dim 0
// CHECK: %[[AGAIN:.*]] = dtc.barrier %[[ALL]] {{.*}}recompute
// CHECK: math.exp %[[AGAIN]] {{.*}}recompute
#whole = #dist.op_sharding<@mesh, [{}]>
dist.mesh @mesh ["dp" = 2]
dtc.parameter trainable @n : tensor<4xf32> file tensor<4xf32>
func.func @f(%n: tensor<4xf32> {dist.block = 0 : i64, dist.sharding = #dist.sharding<@mesh, [{}]>, dist.storage = #dist.axes<{"dp"}>, dtc.role = #dtc.role<parameter, "n">},
             %x: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>})
    -> (tensor<4xf32> {dist.block = 0 : i64, dist.sharding = #dist.sharding<@mesh, [{}]>, dist.storage = #dist.axes<{"dp"}>, dtc.role = #dtc.role<gradient, "n">})
    attributes {dtc.runs = #dtc.runs<microbatch, forward|backward>} {
  %e = math.exp %n {dist.op = #whole, dist.recompute = #dist.recompute<full, 0>, dtc.id = 0 : i64} : tensor<4xf32>
  %y = arith.mulf %e, %x {dist.op = #whole, dtc.id = 1 : i64} : tensor<4xf32>
  %d = arith.mulf %e, %y {dist.op = #whole, dtc.backward = #dtc.backward<0, input_grad>} : tensor<4xf32>
  return %d : tensor<4xf32>
}
