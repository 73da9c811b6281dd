// Terms that pend over the same axes are added before the one reduction.
// RUN: dtc-opt %s -dtc-partition | FileCheck %s

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK-LABEL: func.func @mixed
// CHECK: %[[A:.*]] = dtc.reduce sum %arg0
// CHECK: %[[B:.*]] = dtc.reduce sum %arg1
// CHECK: %[[P:.*]] = dtc.sum %[[A]], %[[B]] : tensor<16xf32>
// CHECK: %[[R:.*]] = dist.all_reduce sum %[[P]] on @mesh {"tp"} : tensor<16xf32>
// CHECK: dtc.sum %[[R]], %arg2 : tensor<16xf32>
// CHECK-NOT: dist.all_reduce
// CHECK: return
func.func @mixed(%a: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
                 %b: tensor<4x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
                 %c: tensor<16xf32>) -> tensor<16xf32> {
  %0 = dtc.reduce sum %a [0] : tensor<8x16xf32> -> tensor<16xf32>
  %1 = dtc.reduce sum %b [0] : tensor<4x16xf32> -> tensor<16xf32>
  %2 = dtc.sum %0, %c, %1 : tensor<16xf32>
  return %2 : tensor<16xf32>
}

// Terms that differ only in what is free to cut meet before they are reduced.
// CHECK-LABEL: func.func @meeting
// CHECK: dist.slice %{{.*}} dim 0 on @mesh {"dp"} : tensor<16xf32> -> tensor<8xf32>
// CHECK: dtc.sum %{{.*}}, %{{.*}} : tensor<8xf32>
// CHECK: dist.all_reduce sum %{{.*}} on @mesh {"tp"} : tensor<8xf32>
// CHECK-NOT: dist.all
// CHECK: return
func.func @meeting(%a: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {"dp"}]>},
                   %b: tensor<4x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<16xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}]>}) {
  %0 = dtc.reduce sum %a [0] : tensor<8x16xf32> -> tensor<16xf32>
  %1 = dtc.reduce sum %b [0] : tensor<4x16xf32> -> tensor<16xf32>
  %2 = dtc.sum %0, %1 : tensor<16xf32>
  return %2 : tensor<16xf32>
}
