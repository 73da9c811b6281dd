// RUN: dtc-opt %s --dtc-decompose-layers | FileCheck %s
// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels --test-run-kernels -o /dev/null

// Sums of vectors and of the rows of matrices, which have as many elements, are summed apart.
// CHECK-LABEL: func.func @mixed
// CHECK: %[[V0:.*]] = dtc.reduce sum %arg0 [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[ROWS0:.*]] = dtc.reduce sum %arg5 [1] : tensor<32x64xf32> -> tensor<32xf32>
// CHECK: %[[M0:.*]] = dtc.reduce sum %[[ROWS0]] [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[V1:.*]] = dtc.reduce sum %arg1 [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[ROWS1:.*]] = dtc.reduce sum %arg6 [1] : tensor<32x64xf32> -> tensor<32xf32>
// CHECK: %[[M1:.*]] = dtc.reduce sum %[[ROWS1]] [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[V2:.*]] = dtc.reduce sum %arg2 [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[ROWS2:.*]] = dtc.reduce sum %arg7 [1] : tensor<32x64xf32> -> tensor<32xf32>
// CHECK: %[[M2:.*]] = dtc.reduce sum %[[ROWS2]] [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[V3:.*]] = dtc.reduce sum %arg3 [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[ROWS3:.*]] = dtc.reduce sum %arg8 [1] : tensor<32x64xf32> -> tensor<32xf32>
// CHECK: %[[M3:.*]] = dtc.reduce sum %[[ROWS3]] [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[V4:.*]] = dtc.reduce sum %arg4 [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[ROWS4:.*]] = dtc.reduce sum %arg9 [1] : tensor<32x64xf32> -> tensor<32xf32>
// CHECK: %[[M4:.*]] = dtc.reduce sum %[[ROWS4]] [0] : tensor<32xf32> -> tensor<f32>
// CHECK: %[[VECTORS:.*]] = dtc.sum %[[V0]], %[[V1]], %[[V2]], %[[V3]], %[[V4]] : tensor<f32>
// CHECK: %[[MATRICES:.*]] = dtc.sum %[[M0]], %[[M1]], %[[M2]], %[[M3]], %[[M4]] : tensor<f32>
// CHECK: dtc.sum %[[VECTORS]], %[[MATRICES]] : tensor<f32>
func.func @mixed(%v0: tensor<32xf32>, %v1: tensor<32xf32>, %v2: tensor<32xf32>, %v3: tensor<32xf32>, %v4: tensor<32xf32>,
    %m0: tensor<32x64xf32>, %m1: tensor<32x64xf32>, %m2: tensor<32x64xf32>, %m3: tensor<32x64xf32>, %m4: tensor<32x64xf32>) -> tensor<f32> {
  %a0 = dtc.reduce sum %v0 [0] : tensor<32xf32> -> tensor<f32>
  %r0 = dtc.reduce sum %m0 [1] : tensor<32x64xf32> -> tensor<32xf32>
  %b0 = dtc.reduce sum %r0 [0] : tensor<32xf32> -> tensor<f32>
  %a1 = dtc.reduce sum %v1 [0] : tensor<32xf32> -> tensor<f32>
  %r1 = dtc.reduce sum %m1 [1] : tensor<32x64xf32> -> tensor<32xf32>
  %b1 = dtc.reduce sum %r1 [0] : tensor<32xf32> -> tensor<f32>
  %a2 = dtc.reduce sum %v2 [0] : tensor<32xf32> -> tensor<f32>
  %r2 = dtc.reduce sum %m2 [1] : tensor<32x64xf32> -> tensor<32xf32>
  %b2 = dtc.reduce sum %r2 [0] : tensor<32xf32> -> tensor<f32>
  %a3 = dtc.reduce sum %v3 [0] : tensor<32xf32> -> tensor<f32>
  %r3 = dtc.reduce sum %m3 [1] : tensor<32x64xf32> -> tensor<32xf32>
  %b3 = dtc.reduce sum %r3 [0] : tensor<32xf32> -> tensor<f32>
  %a4 = dtc.reduce sum %v4 [0] : tensor<32xf32> -> tensor<f32>
  %r4 = dtc.reduce sum %m4 [1] : tensor<32x64xf32> -> tensor<32xf32>
  %b4 = dtc.reduce sum %r4 [0] : tensor<32xf32> -> tensor<f32>
  %sum = dtc.sum %a0, %b0, %a1, %b1, %a2, %b2, %a3, %b3, %a4, %b4 : tensor<f32>
  return %sum : tensor<f32>
}
