// Attention whose keys go round four ranks: with one rank's numbers, and what ranks pass on.
// RUN: dtc-opt %s -test-partition="each=false trials=0 given" | FileCheck %s --check-prefix=SAME
// RUN: dtc-opt %s -dtc-partition | FileCheck %s

// SAME: test.partitions = 2

dist.mesh @mesh ["cp" = 4]

// Three times on to the next rank, beside the step that has them; back again with the gradients,
// which come home after the last step. Nothing is gathered.
// CHECK-LABEL: func.func @causal
// CHECK: dist.permute %arg1 from [3, 0, 1, 2] on @mesh {"cp"} : tensor<2x2x2x2xf32>
// CHECK: dist.permute %arg2 from [3, 0, 1, 2] on @mesh {"cp"} : tensor<2x2x2x3xf32>
// CHECK: dtc.attention %arg0, %arg1, %arg2 scale 5.000000e-01 causal
// CHECK-COUNT-2: dist.permute
// CHECK: dtc.attention %arg0, %{{.*}}, %{{.*}} scale 5.000000e-01 :
// CHECK: dist.axis_index @mesh {"cp"}
// CHECK-COUNT-2: dist.permute
// CHECK-NOT: dist.permute
// CHECK: %[[K:.*]] = dtc.barrier %arg1
// CHECK: %[[V:.*]] = dtc.barrier %arg2
// CHECK: %[[K1:.*]] = dist.permute %[[K]]
// CHECK: %[[V1:.*]] = dist.permute %[[V]]
// CHECK: dtc.attention_part_grad %arg0, %[[K]], %[[V]], {{.*}} scale 5.000000e-01 causal
// CHECK-COUNT-2: dist.permute
// CHECK: dtc.attention_part_grad %arg0, %[[K1]], %[[V1]], {{.*}} scale 5.000000e-01 :
// CHECK-COUNT-8: dist.permute
// CHECK-NOT: dist.
// CHECK: return
func.func @causal(%q: tensor<2x8x4x2xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>},
                  %k: tensor<2x8x2x2xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>},
                  %v: tensor<2x8x2x3xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>},
                  %g: tensor<2x8x4x3xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>})
    -> (tensor<2x8x4x3xf32>, tensor<2x8x4x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x3xf32>) {
  %o, %lse = dtc.attention %q, %k, %v scale 0.5 causal
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x8x4x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x3xf32> -> tensor<2x8x4x3xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %v, %o, %lse, %g scale 0.5 causal
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x8x4x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x3xf32>, tensor<2x8x4x3xf32>, tensor<2x4x8xf32>, tensor<2x8x4x3xf32>
      -> tensor<2x8x4x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x3xf32>
  return %o, %dq, %dk, %dv : tensor<2x8x4x3xf32>, tensor<2x8x4x2xf32>, tensor<2x8x2x2xf32>, tensor<2x8x2x3xf32>
}

// Keys of another sequence, all of which are seen.
// CHECK-LABEL: func.func @across
// CHECK-NOT: dist.axis_index
// CHECK: return
func.func @across(%q: tensor<3x4x2x2xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>},
                  %k: tensor<3x8x2x2xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>},
                  %v: tensor<3x8x2x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>},
                  %g: tensor<3x4x2x5xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"cp"}, {}, {}]>})
    -> (tensor<3x4x2x5xf32>, tensor<3x2x4xf32>, tensor<3x4x2x2xf32>, tensor<3x8x2x2xf32>, tensor<3x8x2x5xf32>) {
  %o, %lse = dtc.attention %q, %k, %v scale 0.5
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<3x4x2x2xf32>, tensor<3x8x2x2xf32>, tensor<3x8x2x5xf32> -> tensor<3x4x2x5xf32>, tensor<3x2x4xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %v, %o, %lse, %g scale 0.5
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<3x4x2x2xf32>, tensor<3x8x2x2xf32>, tensor<3x8x2x5xf32>, tensor<3x4x2x5xf32>, tensor<3x2x4xf32>, tensor<3x4x2x5xf32>
      -> tensor<3x4x2x2xf32>, tensor<3x8x2x2xf32>, tensor<3x8x2x5xf32>
  return %o, %lse, %dq, %dk, %dv : tensor<3x4x2x5xf32>, tensor<3x2x4xf32>, tensor<3x4x2x2xf32>, tensor<3x8x2x2xf32>, tensor<3x8x2x5xf32>
}
