// RUN: dtc-opt %s --dtc-decompose-layers | FileCheck %s

// A table's gradient in bf16 is summed up in f32. One that waits for the sum of both tables' is rounded before,
// so that no f32 waits. The last one is rounded by the sum.
// CHECK-LABEL: @both
// CHECK: %[[A:.*]] = dtc.scatter_add {{.*}} -> tensor<16x4xf32>
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[A]]
// CHECK: %[[WAITS:.*]] = dtc.barrier %[[ROUNDED]]
// CHECK: %[[B:.*]] = dtc.scatter_add {{.*}} -> tensor<16x4xf32>
// CHECK-NOT: dtc.barrier
// CHECK: return
func.func @both(%i: tensor<8xi64>, %x: tensor<8x4xbf16>, %y: tensor<8x4xbf16>) -> tensor<16x4xbf16> {
  %a = dtc.scatter_add %i, %x axis 0 : tensor<8xi64>, tensor<8x4xbf16> -> tensor<16x4xbf16>
  %b = dtc.scatter_add %i, %y axis 0 : tensor<8xi64>, tensor<8x4xbf16> -> tensor<16x4xbf16>
  %s = dtc.sum %a, %b : tensor<16x4xbf16>
  return %s : tensor<16x4xbf16>
}

// What is added to earlier microbatches' is rounded as it is added.
// CHECK-LABEL: @alone
// CHECK-NOT: dtc.barrier
// CHECK: return
func.func @alone(%i: tensor<8xi64>, %x: tensor<8x4xbf16>, %acc: tensor<16x4xbf16>) -> tensor<16x4xbf16> {
  %a = dtc.scatter_add %i, %x axis 0 : tensor<8xi64>, tensor<8x4xbf16> -> tensor<16x4xbf16>
  %s = dtc.sum %acc, %a : tensor<16x4xbf16>
  return %s : tensor<16x4xbf16>
}
