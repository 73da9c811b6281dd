// RUN: dtc-opt %s --dtc-partition | FileCheck %s

// Two stages read a part of a weight each, and the other one joins the gradients of both. So this one gives nothing to the sum
// over stages, of which each rank has a part.
// CHECK: func.func @update(%[[W:.*]]: tensor<4xf32>
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK: %[[SUM:.*]] = dist.stage_sum %[[ZERO]] on @mesh stages [0, 1] : tensor<4xf32>
// CHECK: %[[NEW:.*]] = arith.subf %[[W]], %[[SUM]] : tensor<4xf32>
// CHECK: return %[[NEW]] : tensor<4xf32>
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
  func.func @update(
      %w: tensor<8xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>, dtc.role = #dtc.role<parameter, "w">, dist.storage = #dist.axes<{"dp"}>})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>, dtc.role = #dtc.role<parameter, "w">, dist.storage = #dist.axes<{"dp"}>})
      attributes {dtc.runs = #dtc.runs<step>} {
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %sum = dist.stage_sum %zero on @mesh stages [0, 1] : tensor<8xf32>
    %new = arith.subf %w, %sum : tensor<8xf32>
    return %new : tensor<8xf32>
  }
}
