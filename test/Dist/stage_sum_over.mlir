// RUN: dtc-opt %s --verify-roundtrip | FileCheck %s
// RUN: dtc-opt %s --dtc-verify-partition -o /dev/null

// After partitioning it may also be one over the ranks of each stage, which then have the same.
// CHECK: dist.stage_sum %{{.*}} on @mesh stages [0, 1, 2] over <{"dp"}> : tensor<f32>
dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>, array<i64: 4, 5>]}
func.func @update(%x: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>, dtc.role = #dtc.role<loss, "">})
    -> (tensor<f32> {dist.sharding = #dist.sharding<@mesh, []>}) attributes {dist.local, dtc.runs = #dtc.runs<step>} {
  %y = dist.stage_sum %x on @mesh stages [0, 1, 2] over <{"dp"}> : tensor<f32>
  return %y : tensor<f32>
}
