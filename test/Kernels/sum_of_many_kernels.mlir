// RUN: dtc-opt %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-form-kernels | FileCheck %s --check-prefix=CUDA

// On processors a kernel of one total serves all forty, and one of eight scalars their sums. On GPUs
// a kernel of eight totals makes few launches of what isn't added up by pieces.
// CHECK-COUNT-3: exec.kernel @
// CHECK-NOT: exec.kernel @
// CHECK-LABEL: func.func @all(
// CHECK-COUNT-40: exec.launch @rows_0(
// CHECK-NOT: exec.launch @rows
// CUDA-COUNT-2: exec.kernel @
// CUDA-NOT: exec.kernel @
// CUDA-LABEL: func.func @all(
// CUDA-COUNT-5: exec.launch @rows_0(
// CUDA-NEXT: {{.*}}exec.launch @pointwise_0(
func.func @all(%g0: tensor<32xf32>, %g1: tensor<32xf32>, %g2: tensor<32xf32>, %g3: tensor<32xf32>, %g4:
    tensor<32xf32>, %g5: tensor<32xf32>, %g6: tensor<32xf32>, %g7: tensor<32xf32>, %g8:
    tensor<32xf32>, %g9: tensor<32xf32>, %g10: tensor<32xf32>, %g11: tensor<32xf32>, %g12:
    tensor<32xf32>, %g13: tensor<32xf32>, %g14: tensor<32xf32>, %g15: tensor<32xf32>,
    %g16: tensor<32xf32>, %g17: tensor<32xf32>, %g18: tensor<32xf32>, %g19:
    tensor<32xf32>, %g20: tensor<32xf32>, %g21: tensor<32xf32>, %g22: tensor<32xf32>,
    %g23: tensor<32xf32>, %g24: tensor<32xf32>, %g25: tensor<32xf32>, %g26:
    tensor<32xf32>, %g27: tensor<32xf32>, %g28: tensor<32xf32>, %g29: tensor<32xf32>,
    %g30: tensor<32xf32>, %g31: tensor<32xf32>, %g32: tensor<32xf32>, %g33:
    tensor<32xf32>, %g34: tensor<32xf32>, %g35: tensor<32xf32>, %g36: tensor<32xf32>,
    %g37: tensor<32xf32>, %g38: tensor<32xf32>, %g39: tensor<32xf32>) -> tensor<f32> {
  %r0 = dtc.reduce sum %g0 [0] : tensor<32xf32> -> tensor<f32>
  %r1 = dtc.reduce sum %g1 [0] : tensor<32xf32> -> tensor<f32>
  %r2 = dtc.reduce sum %g2 [0] : tensor<32xf32> -> tensor<f32>
  %r3 = dtc.reduce sum %g3 [0] : tensor<32xf32> -> tensor<f32>
  %r4 = dtc.reduce sum %g4 [0] : tensor<32xf32> -> tensor<f32>
  %r5 = dtc.reduce sum %g5 [0] : tensor<32xf32> -> tensor<f32>
  %r6 = dtc.reduce sum %g6 [0] : tensor<32xf32> -> tensor<f32>
  %r7 = dtc.reduce sum %g7 [0] : tensor<32xf32> -> tensor<f32>
  %r8 = dtc.reduce sum %g8 [0] : tensor<32xf32> -> tensor<f32>
  %r9 = dtc.reduce sum %g9 [0] : tensor<32xf32> -> tensor<f32>
  %r10 = dtc.reduce sum %g10 [0] : tensor<32xf32> -> tensor<f32>
  %r11 = dtc.reduce sum %g11 [0] : tensor<32xf32> -> tensor<f32>
  %r12 = dtc.reduce sum %g12 [0] : tensor<32xf32> -> tensor<f32>
  %r13 = dtc.reduce sum %g13 [0] : tensor<32xf32> -> tensor<f32>
  %r14 = dtc.reduce sum %g14 [0] : tensor<32xf32> -> tensor<f32>
  %r15 = dtc.reduce sum %g15 [0] : tensor<32xf32> -> tensor<f32>
  %r16 = dtc.reduce sum %g16 [0] : tensor<32xf32> -> tensor<f32>
  %r17 = dtc.reduce sum %g17 [0] : tensor<32xf32> -> tensor<f32>
  %r18 = dtc.reduce sum %g18 [0] : tensor<32xf32> -> tensor<f32>
  %r19 = dtc.reduce sum %g19 [0] : tensor<32xf32> -> tensor<f32>
  %r20 = dtc.reduce sum %g20 [0] : tensor<32xf32> -> tensor<f32>
  %r21 = dtc.reduce sum %g21 [0] : tensor<32xf32> -> tensor<f32>
  %r22 = dtc.reduce sum %g22 [0] : tensor<32xf32> -> tensor<f32>
  %r23 = dtc.reduce sum %g23 [0] : tensor<32xf32> -> tensor<f32>
  %r24 = dtc.reduce sum %g24 [0] : tensor<32xf32> -> tensor<f32>
  %r25 = dtc.reduce sum %g25 [0] : tensor<32xf32> -> tensor<f32>
  %r26 = dtc.reduce sum %g26 [0] : tensor<32xf32> -> tensor<f32>
  %r27 = dtc.reduce sum %g27 [0] : tensor<32xf32> -> tensor<f32>
  %r28 = dtc.reduce sum %g28 [0] : tensor<32xf32> -> tensor<f32>
  %r29 = dtc.reduce sum %g29 [0] : tensor<32xf32> -> tensor<f32>
  %r30 = dtc.reduce sum %g30 [0] : tensor<32xf32> -> tensor<f32>
  %r31 = dtc.reduce sum %g31 [0] : tensor<32xf32> -> tensor<f32>
  %r32 = dtc.reduce sum %g32 [0] : tensor<32xf32> -> tensor<f32>
  %r33 = dtc.reduce sum %g33 [0] : tensor<32xf32> -> tensor<f32>
  %r34 = dtc.reduce sum %g34 [0] : tensor<32xf32> -> tensor<f32>
  %r35 = dtc.reduce sum %g35 [0] : tensor<32xf32> -> tensor<f32>
  %r36 = dtc.reduce sum %g36 [0] : tensor<32xf32> -> tensor<f32>
  %r37 = dtc.reduce sum %g37 [0] : tensor<32xf32> -> tensor<f32>
  %r38 = dtc.reduce sum %g38 [0] : tensor<32xf32> -> tensor<f32>
  %r39 = dtc.reduce sum %g39 [0] : tensor<32xf32> -> tensor<f32>
  %sum = dtc.sum %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15,
    %r16, %r17, %r18, %r19, %r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29,
    %r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38, %r39 : tensor<f32>
  return %sum : tensor<f32>
}
