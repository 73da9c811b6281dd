// RUN: dtc-opt %s --dtc-normalize-contractions --dtc-form-kernels | FileCheck %s

// Gradients of two parts of the keys read the same queries, of four heads for each head of the keys.
// Both need them in another order: one copy serves both.
// CHECK-LABEL: func @two_parts
// CHECK-NEXT: %[[COPY:[0-9]+]] = exec.launch @pointwise_0(%arg0)
// CHECK-NEXT: exec.matmul %arg1, %[[COPY]] batch
// CHECK-NEXT: exec.matmul %arg2, %[[COPY]] batch
// CHECK-NEXT: return
func.func @two_parts(%q: tensor<2x16x2x4x8xf32>, %p: tensor<2x2x4x16x16xf32>, %r: tensor<2x2x4x16x16xf32>)
    -> (tensor<2x16x2x8xf32>, tensor<2x16x2x8xf32>) {
  %0 = dtc.contract %p [0, 1, 4, 5, 2], %q [0, 5, 1, 4, 3] -> [0, 2, 1, 3] : tensor<2x2x4x16x16xf32>, tensor<2x16x2x4x8xf32> -> tensor<2x16x2x8xf32>
  %1 = dtc.contract %r [0, 1, 4, 5, 2], %q [0, 5, 1, 4, 3] -> [0, 2, 1, 3] : tensor<2x2x4x16x16xf32>, tensor<2x16x2x4x8xf32> -> tensor<2x16x2x8xf32>
  return %0, %1 : tensor<2x16x2x8xf32>, tensor<2x16x2x8xf32>
}
