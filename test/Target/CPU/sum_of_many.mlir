// RUN: dtc-opt %s --dtc-decompose-layers | FileCheck %s
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels -o /dev/null

// Many scalars are summed in groups of at most eight, alike ones together, so that equal groups
// share a kernel: here the sums of ten rows, and of nine shorter ones in between.
// CHECK-LABEL: func.func @norm
// CHECK-NOT: dtc.sum
// CHECK: %[[SHORT:.*]] = dtc.sum %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} : tensor<f32>
// CHECK-NEXT: %[[LONG:.*]] = dtc.sum %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} : tensor<f32>
// CHECK-NEXT: %[[REST:.*]] = dtc.sum %{{[^,]*}}, %{{[^,]*}} : tensor<f32>
// CHECK-NEXT: dtc.sum %[[SHORT]], %{{[^,]*}}, %[[LONG]], %[[REST]] : tensor<f32>
func.func @norm(%a: tensor<19x32xf32>, %b: tensor<19x16xf32>) -> tensor<f32> {
  %s0 = dtc.slice %a offsets [0, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r0 = dtc.reduce sum %s0 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s1 = dtc.slice %b offsets [1, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r1 = dtc.reduce sum %s1 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s2 = dtc.slice %a offsets [2, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r2 = dtc.reduce sum %s2 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s3 = dtc.slice %b offsets [3, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r3 = dtc.reduce sum %s3 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s4 = dtc.slice %a offsets [4, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r4 = dtc.reduce sum %s4 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s5 = dtc.slice %b offsets [5, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r5 = dtc.reduce sum %s5 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s6 = dtc.slice %a offsets [6, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r6 = dtc.reduce sum %s6 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s7 = dtc.slice %b offsets [7, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r7 = dtc.reduce sum %s7 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s8 = dtc.slice %a offsets [8, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r8 = dtc.reduce sum %s8 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s9 = dtc.slice %b offsets [9, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r9 = dtc.reduce sum %s9 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s10 = dtc.slice %a offsets [10, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r10 = dtc.reduce sum %s10 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s11 = dtc.slice %b offsets [11, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r11 = dtc.reduce sum %s11 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s12 = dtc.slice %a offsets [12, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r12 = dtc.reduce sum %s12 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s13 = dtc.slice %b offsets [13, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r13 = dtc.reduce sum %s13 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s14 = dtc.slice %a offsets [14, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r14 = dtc.reduce sum %s14 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s15 = dtc.slice %b offsets [15, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r15 = dtc.reduce sum %s15 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s16 = dtc.slice %a offsets [16, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r16 = dtc.reduce sum %s16 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %s17 = dtc.slice %b offsets [17, 0] strides [1, 1] : tensor<19x16xf32> -> tensor<1x16xf32>
  %r17 = dtc.reduce sum %s17 [0, 1] : tensor<1x16xf32> -> tensor<f32>
  %s18 = dtc.slice %a offsets [18, 0] strides [1, 1] : tensor<19x32xf32> -> tensor<1x32xf32>
  %r18 = dtc.reduce sum %s18 [0, 1] : tensor<1x32xf32> -> tensor<f32>
  %sum = dtc.sum %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18 : tensor<f32>
  return %sum : tensor<f32>
}
