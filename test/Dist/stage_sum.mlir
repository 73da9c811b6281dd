// RUN: dtc-opt %s --verify-roundtrip | FileCheck %s
// RUN: dtc-opt %s --dtc-partition | FileCheck %s --check-prefix=LOCAL

// The sum of what ranks 0 and 2 have, element by element. Stages may differ in what pends, so that
// nothing does when they add up.
// CHECK: dist.stage_sum %{{.*}}, %{{.*}} on @mesh stages [0, 2] : tensor<8x4xf32>, tensor<f32>
// LOCAL: %[[SUM:.*]] = dist.all_reduce sum %{{.*}} on @mesh {"dp"}
// LOCAL: dist.stage_sum %{{.*}}, %[[SUM]] on @mesh stages [0, 2] : tensor<8x2xf32>, tensor<f32>
dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>, array<i64: 4, 5>]}
func.func @update(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"dp"}]>}) -> (tensor<8x4xf32>, tensor<f32>) attributes {dtc.runs = #dtc.runs<step>} {
  %s = dtc.reduce sum %x [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %y, %t = dist.stage_sum %x, %s on @mesh stages [0, 2] : tensor<8x4xf32>, tensor<f32>
  return %y, %t : tensor<8x4xf32>, tensor<f32>
}
