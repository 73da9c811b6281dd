// An all-reduce of which only a part is read becomes a reduce-scatter.
// RUN: dtc-opt %s -split-input-file -dtc-pipeline=partition | FileCheck %s

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// The first reader asks for the whole, which nothing needs in the end.
// CHECK-LABEL: func.func @part
// CHECK: %[[R:.*]] = dist.reduce_scatter sum %{{.*}} dim 0 on @mesh {"tp"} : tensor<16xf32> -> tensor<8xf32>
// CHECK: math.exp %[[R]] : tensor<8xf32>
// CHECK-NOT: dist.all_reduce
// CHECK: return
func.func @part(%a: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}]>}) {
  %0 = dtc.reduce sum %a [0] : tensor<8x16xf32> -> tensor<16xf32>
  %dead = math.absf %0 {dist.op = #dist.op_sharding<@mesh, [{}]>} : tensor<16xf32>
  %1 = math.exp %0 {dist.op = #dist.op_sharding<@mesh, [{"tp"}]>} : tensor<16xf32>
  return %1 : tensor<16xf32>
}

// CHECK-LABEL: func.func @whole_is_read_too
// CHECK: dist.all_reduce
// CHECK: dist.slice
// CHECK-NOT: dist.reduce_scatter
// CHECK: return
func.func @whole_is_read_too(%a: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = dtc.reduce sum %a [0] : tensor<8x16xf32> -> tensor<16xf32>
  %1 = math.absf %0 {dist.op = #dist.op_sharding<@mesh, [{}]>} : tensor<16xf32>
  %2 = math.exp %0 {dist.op = #dist.op_sharding<@mesh, [{"tp"}]>} : tensor<16xf32>
  return %1, %2 : tensor<16xf32>, tensor<16xf32>
}

// A sum over further axes follows on the part.
// CHECK-LABEL: func.func @further_axes
// CHECK: %[[R:.*]] = dist.reduce_scatter sum %{{.*}} dim 0 on @mesh {"tp"} : tensor<16xf32> -> tensor<8xf32>
// CHECK: dist.all_reduce sum %[[R]] on @mesh {"dp"} : tensor<8xf32>
// CHECK: return
func.func @further_axes(%a: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp", "tp"}, {}]>})
    -> (tensor<16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}]>}) {
  %0 = dtc.reduce sum %a [0] : tensor<8x16xf32> -> tensor<16xf32>
  %dead = math.absf %0 {dist.op = #dist.op_sharding<@mesh, [{}]>} : tensor<16xf32>
  %1 = math.exp %0 {dist.op = #dist.op_sharding<@mesh, [{"tp"}]>} : tensor<16xf32>
  return %1 : tensor<16xf32>
}
