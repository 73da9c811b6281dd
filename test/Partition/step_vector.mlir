// RUN: dtc-opt %s --dtc-partition --split-input-file | FileCheck %s
// RUN: dtc-opt %s --dtc-partition --split-input-file --verify-roundtrip -o /dev/null

// The loss pends over dp and cp, the squares of %w over tp; those of %b are whole on all ranks. Each
// term is one rank's among those that have the same, and there is one call over all ranks.
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32>
// CHECK-SAME: %[[L:[^:]*]]: tensor<f32>
// CHECK-NOT: all_reduce
// CHECK: %[[SPLIT:.*]] = dtc.reduce sum %{{.*}} : tensor<4x4xf32> -> tensor<f32>
// CHECK: %[[WHOLE:.*]] = dtc.reduce sum %{{.*}} : tensor<4xf32> -> tensor<f32>
// CHECK-NOT: all_reduce
// CHECK: dist.axis_index @mesh {"tp"}
// CHECK: %[[LOSS:.*]] = arith.select %{{.*}}, %[[L]], %{{.*}} : tensor<i1>, tensor<f32>
// CHECK: dist.axis_index @mesh {"dp", "cp"}
// CHECK: %[[A:.*]] = arith.select %{{.*}}, %[[SPLIT]], %{{.*}} : tensor<i1>, tensor<f32>
// CHECK: dist.axis_index @mesh {"dp", "cp", "tp"}
// CHECK: %[[B:.*]] = arith.select %{{.*}}, %[[WHOLE]], %{{.*}} : tensor<i1>, tensor<f32>
// CHECK: %[[SQUARES:.*]] = dtc.sum %[[A]], %[[B]] : tensor<f32>
// CHECK: %[[ALL:.*]]:4 = dist.all_reduce sum %[[LOSS]], %{{.*}}, %{{.*}}, %[[SQUARES]] on @mesh {"dp", "cp", "tp"}
// CHECK-NOT: all_reduce
// CHECK: return %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2, %[[ALL]]#3
module {
  dist.mesh @mesh ["dp" = 2, "cp" = 2, "ep" = 1, "tp" = 2]
  func.func @update(
      %w: tensor<4x8xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>, dtc.role = #dtc.role<parameter, "w">},
      %b: tensor<4xf32> {dist.sharding = #dist.sharding<@mesh, [{}]>, dtc.role = #dtc.role<parameter, "b">},
      %l: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp", "cp"}>, dtc.role = #dtc.role<loss, "">},
      %n: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>})
      -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) attributes {dtc.runs = #dtc.runs<step>} {
    %0 = arith.mulf %w, %w : tensor<4x8xf32>
    %1 = dtc.reduce sum %0 [0, 1] : tensor<4x8xf32> -> tensor<f32>
    %2 = arith.mulf %b, %b : tensor<4xf32>
    %3 = dtc.reduce sum %2 [0] : tensor<4xf32> -> tensor<f32>
    %4 = dtc.sum %1, %3 : tensor<f32>
    %5:4 = dtc.step_vector %l, %n, %n, %4 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    return %5#0, %5#1, %5#2, %5#3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// In a pipeline it is one sum over all ranks of all stages.
// CHECK-LABEL: func.func @update(
// CHECK-NOT: all_reduce
// CHECK: dist.stage_sum {{.*}} on @mesh stages [0, 1] over <{"dp"}> :
// CHECK-NOT: all_reduce
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
  func.func @update(
      %l: tensor<f32> {dist.sharding = #dist.sharding<@mesh, [], sum = {"dp"}>, dtc.role = #dtc.role<loss, "">},
      %n: tensor<f32> {dtc.role = #dtc.role<scalar, "", count>})
      -> (tensor<f32>, tensor<f32>) attributes {dtc.runs = #dtc.runs<step>} {
    %0:4 = dtc.step_vector %l, %n, %n, %n : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    %1:4 = dist.stage_sum %0#0, %0#1, %0#2, %0#3 on @mesh stages [0, 1] : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    return %1#0, %1#3 : tensor<f32>, tensor<f32>
  }
}

// -----

// One rank has nobody to ask.
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[L:[^:]*]]: tensor<f32>
// CHECK-NEXT: return %[[L]] : tensor<f32>
module {
  dist.mesh @mesh ["dp" = 1]
  func.func @update(%l: tensor<f32> {dtc.role = #dtc.role<loss, "">}) -> tensor<f32> attributes {dtc.runs = #dtc.runs<step>} {
    %0:4 = dtc.step_vector %l, %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
    return %0#0 : tensor<f32>
  }
}
