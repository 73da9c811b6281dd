// Terms that pend over the same axes are added before the one reduction.
// RUN: dtc-opt %s -dtc-pipeline=partition | FileCheck %s

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

// What pends in f32 is summed in f32 before it is rounded; what a bf16 contraction leaves pending is
// summed as it is, and may be widened first.
// CHECK-LABEL: func.func @precision
// CHECK: %[[WIDE:.*]] = dtc.reduce sum %arg0
// CHECK: %[[SUM:.*]] = dist.all_reduce sum %[[WIDE]] on @mesh {"tp"} : tensor<16xf32>
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[SUM]]
// CHECK: %[[PART:.*]] = dtc.contract {{.*}} -> tensor<4x16xbf16>
// CHECK: %[[EXTENDED:.*]] = arith.extf %[[PART]]
// CHECK: dist.all_reduce sum %[[PART]] on @mesh {"tp"} : tensor<4x16xbf16>
// CHECK: dist.all_reduce sum %[[EXTENDED]] on @mesh {"tp"} : tensor<4x16xf32>
func.func @precision(%a: tensor<8x16xf32> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>},
                     %x: tensor<4x8xbf16> {dist.sharding = #dist.sharding<@mesh, [{}, {"tp"}]>},
                     %w: tensor<8x16xbf16> {dist.sharding = #dist.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<16xbf16>, tensor<4x16xbf16>, tensor<4x16xf32>) {
  %0 = dtc.reduce sum %a [0] : tensor<8x16xf32> -> tensor<16xf32>
  %1 = arith.truncf %0 : tensor<16xf32> to tensor<16xbf16>
  %2 = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2] : tensor<4x8xbf16>, tensor<8x16xbf16> -> tensor<4x16xbf16>
  %3 = arith.extf %2 : tensor<4x16xbf16> to tensor<4x16xf32>
  return %1, %2, %3 : tensor<16xbf16>, tensor<4x16xbf16>, tensor<4x16xf32>
}
