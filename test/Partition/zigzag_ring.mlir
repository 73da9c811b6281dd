// Attention whose keys go round four ranks with parts in zig-zag: with one rank's numbers.
// RUN: dtc-opt %s -test-partition="each=false trials=0 given" | FileCheck %s --check-prefix=SAME
// RUN: dtc-opt %s -dtc-partition | FileCheck %s

// SAME: test.partitions = 1

dist.mesh @mesh ["cp" = 4] {dist.zigzag = #dist.axes<{"cp"}>}

// A rank's own keys up to the query's. Then two pairs of chunks a step, of which all is seen: the
// second queries with the first keys, and a pair that the rank's position selects.
// CHECK-LABEL: func.func @ring
// CHECK: dtc.attention {{.*}} causal : tensor<2x4x4x2xf32>
// CHECK: dist.axis_index @mesh {"cp"}
// CHECK: dtc.attention {{.*}} 5.000000e-01 : tensor<2x2x4x2xf32>
// CHECK-COUNT-3: arith.select
// CHECK: dtc.attention {{.*}} 5.000000e-01 : tensor<2x2x4x2xf32>
// CHECK-COUNT-4: dtc.attention {{.*}} 5.000000e-01 : tensor<2x2x4x2xf32>
// CHECK-NOT: dtc.attention %
// CHECK: dtc.attention_part_grad {{.*}} causal : tensor<2x4x4x2xf32>
// CHECK-COUNT-6: dtc.attention_part_grad {{.*}} 5.000000e-01 : tensor<2x2x4x2xf32>
// CHECK-NOT: dtc.attention
func.func @ring(%q: tensor<2x16x4x2xf32>, %k: tensor<2x16x2x2xf32>, %v: tensor<2x16x2x3xf32>, %g: tensor<2x16x4x3xf32>)
    -> (tensor<2x16x4x3xf32>, tensor<2x16x4x2xf32>, tensor<2x16x2x2xf32>, tensor<2x16x2x3xf32>) {
  %o, %lse = dtc.attention %q, %k, %v scale 0.5 causal
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x16x4x2xf32>, tensor<2x16x2x2xf32>, tensor<2x16x2x3xf32> -> tensor<2x16x4x3xf32>, tensor<2x4x16xf32>
  %dq, %dk, %dv = dtc.attention_grad %q, %k, %v, %o, %lse, %g scale 0.5 causal
      {dist.op = #dist.op_sharding<@mesh, [{}, {}, {}, {"cp"}, {"cp"}, {}, {}]>}
      : tensor<2x16x4x2xf32>, tensor<2x16x2x2xf32>, tensor<2x16x2x3xf32>, tensor<2x16x4x3xf32>, tensor<2x4x16xf32>, tensor<2x16x4x3xf32>
      -> tensor<2x16x4x2xf32>, tensor<2x16x2x2xf32>, tensor<2x16x2x3xf32>
  return %o, %dq, %dk, %dv : tensor<2x16x4x3xf32>, tensor<2x16x4x2xf32>, tensor<2x16x2x2xf32>, tensor<2x16x2x3xf32>
}
