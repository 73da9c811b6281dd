// RUN: dtc-opt %s | dtc-opt | FileCheck %s
// RUN: dtc-opt %s --mlir-print-op-generic | dtc-opt | FileCheck %s

// CHECK: dist.mesh @mesh ["dp" = 2, "tp.0" = 2 of "tp", "tp.1" = 2 of "tp"]
dist.mesh @mesh ["dp" = 2, "tp.0" = 2 of "tp", "tp.1" = 2 of "tp"]

// CHECK-LABEL: func.func @global
// CHECK-SAME: #dist.sharding<@mesh, [{"dp"}, {}], sum = {"tp.0", "tp.1"}>
// CHECK-SAME: -> (tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp.0", "dp"}], max = {"tp.1"}>})
func.func @global(%x: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}], sum = {"tp.0", "tp.1"}>})
    -> (tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp.0", "dp"}], max = {"tp.1"}>}) {
  // CHECK: #dist.op_sharding<@mesh, [{"dp"}, {}], pending = [{"tp.0", "tp.1"}]>
  %0 = dtc.transpose %x [1, 0] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}], pending = [{"tp.0", "tp.1"}]>}
      : tensor<8x16xf32> -> tensor<16x8xf32>
  // CHECK: #dist.op_sharding<@mesh, [{}, {"dp"}]>
  %1 = dtc.transpose %0 [1, 0] {dist.op = #dist.op_sharding<@mesh, [{}, {"dp"}]>}
      : tensor<16x8xf32> -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// A local function's types are shards: 1 row of 2.
// CHECK-LABEL: func.func @local
func.func @local(%x: tensor<1x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>}) -> tensor<i64>
    attributes {dist.local} {
  // CHECK: dist.all_reduce sum %{{.*}} on @mesh {"dp"} : tensor<1x16xf32>
  %0 = dist.all_reduce sum %x on @mesh {"dp"} : tensor<1x16xf32>
  %y = dtc.reshape %x : tensor<1x16xf32> -> tensor<16xf32>
  // CHECK: dist.all_reduce max %{{.*}}, %{{.*}} on @mesh {"dp", "tp.0"} : tensor<1x16xf32>, tensor<16xf32>
  %1:2 = dist.all_reduce max %x, %y on @mesh {"dp", "tp.0"} : tensor<1x16xf32>, tensor<16xf32>
  // CHECK: dist.all_gather %{{.*}} dim 0 on @mesh {"dp"} : tensor<1x16xf32> -> tensor<2x16xf32>
  %2 = dist.all_gather %x dim 0 on @mesh {"dp"} : tensor<1x16xf32> -> tensor<2x16xf32>
  // CHECK: dist.all_gather %{{.*}}, %{{.*}} dim 0 on @mesh {"dp"} : tensor<1x16xf32>, tensor<16xf32> -> tensor<2x16xf32>, tensor<32xf32>
  %gathered:2 = dist.all_gather %x, %y dim 0 on @mesh {"dp"} : tensor<1x16xf32>, tensor<16xf32> -> tensor<2x16xf32>, tensor<32xf32>
  // CHECK: dist.reduce_scatter sum %{{.*}}, %{{.*}} dim 0 on @mesh {"dp"} : tensor<2x16xf32>, tensor<32xf32> -> tensor<1x16xf32>, tensor<16xf32>
  %scattered:2 = dist.reduce_scatter sum %gathered#0, %gathered#1 dim 0 on @mesh {"dp"} : tensor<2x16xf32>, tensor<32xf32> -> tensor<1x16xf32>, tensor<16xf32>
  // CHECK: dist.reduce_scatter sum %{{.*}} dim 1 on @mesh {"tp.0", "tp.1"} : tensor<1x16xf32> -> tensor<1x4xf32>
  %3 = dist.reduce_scatter sum %x dim 1 on @mesh {"tp.0", "tp.1"} : tensor<1x16xf32> -> tensor<1x4xf32>
  // CHECK: dist.all_to_all %{{.*}} split 1 concat 0 on @mesh {"dp"} : tensor<1x16xf32> -> tensor<2x8xf32>
  %4 = dist.all_to_all %x split 1 concat 0 on @mesh {"dp"} : tensor<1x16xf32> -> tensor<2x8xf32>
  // CHECK: dist.permute %{{.*}} from [1, 0] on @mesh {"dp"} : tensor<1x16xf32> -> tensor<1x16xf32>
  %5 = dist.permute %x from [1, 0] on @mesh {"dp"} : tensor<1x16xf32> -> tensor<1x16xf32>
  // CHECK: dist.slice %{{.*}} dim 1 on @mesh {"tp.1"} : tensor<1x16xf32> -> tensor<1x8xf32>
  %6 = dist.slice %x dim 1 on @mesh {"tp.1"} : tensor<1x16xf32> -> tensor<1x8xf32>
  // CHECK: dist.axis_index @mesh {"dp", "tp.1"} : tensor<i64>
  %7 = dist.axis_index @mesh {"dp", "tp.1"} : tensor<i64>
  return %7 : tensor<i64>
}

// CHECK: #dist.axes<{"dp", "tp"}>
func.func private @f() attributes {test.a = #dist.axes<{"dp", "tp"}>}
