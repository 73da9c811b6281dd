// What follows a product becomes its epilogue where the target's library has them.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers --dtc-normalize-contractions --dtc-fold-epilogues | FileCheck %s
// RUN: dtc-opt --target=cuda %s --dtc-layers-to-kernels | FileCheck %s --check-prefix=LAUNCH
// RUN: env DTC_CUBLASLT_EPILOGUES=0 dtc-opt --target=cuda %s --dtc-layers-to-kernels | FileCheck %s --check-prefix=NONE
// NONE: exec.matmul
// NONE-NOT: epilogue

// A layer of a transformer: the product of the second weight's gradient reads what GELU makes, and
// GELU's gradient what it reads. So both are written.
// CHECK-LABEL: @layer
// CHECK: %[[GELU:.*]], %[[SUM:.*]] = exec.matmul %arg0, %arg1 with %arg2 batch [] mnk [256, 128, 64] {{.*}} epilogue <bias_gelu> : tensor<8x32x64xbf16>, tensor<64x128xbf16>, tensor<128xbf16> -> tensor<8x32x128xbf16>, tensor<8x32x128xbf16>
// CHECK: exec.matmul %[[GELU]], %arg3 with %arg4 {{.*}} epilogue <bias>
// CHECK: %[[GRAD:.*]] = exec.matmul %arg5, %arg3 with %[[SUM]] {{.*}} epilogue <gelu_grad> : tensor<8x32x64xbf16>, tensor<128x64xbf16>, tensor<8x32x128xbf16> -> tensor<8x32x128xbf16>
// CHECK: %[[WEIGHT:.*]], %[[BIAS:.*]] = exec.matmul %arg0, %[[GRAD]] {{.*}} epilogue <sum_rhs> : tensor<8x32x64xbf16>, tensor<8x32x128xbf16> -> tensor<64x128xf32>, tensor<128xf32>
// CHECK-NOT: arith
// CHECK: return
// LAUNCH-LABEL: @layer
// LAUNCH-NOT: exec.launch
// LAUNCH: return
func.func @layer(%x: tensor<8x32x64xbf16>, %w1: tensor<64x128xbf16>, %b1: tensor<128xbf16>, %w2: tensor<128x64xbf16>, %b2: tensor<64xbf16>, %dy: tensor<8x32x64xbf16>) -> (tensor<8x32x64xbf16>, tensor<64x128xf32>, tensor<128xf32>) {
  %0 = dtc.contract %x [0, 1, 2], %w1 [2, 3] -> [0, 1, 3] : tensor<8x32x64xbf16>, tensor<64x128xbf16> -> tensor<8x32x128xbf16>
  %1 = dtc.broadcast %b1 [2] : tensor<128xbf16> -> tensor<8x32x128xbf16>
  %2 = arith.addf %0, %1 : tensor<8x32x128xbf16>
  %3 = dtc.activation gelu_tanh %2 : tensor<8x32x128xbf16>
  %4 = dtc.contract %3 [0, 1, 2], %w2 [2, 3] -> [0, 1, 3] : tensor<8x32x128xbf16>, tensor<128x64xbf16> -> tensor<8x32x64xbf16>
  %5 = dtc.broadcast %b2 [2] : tensor<64xbf16> -> tensor<8x32x64xbf16>
  %6 = arith.addf %4, %5 : tensor<8x32x64xbf16>
  %7 = dtc.contract %dy [0, 1, 2], %w2 [3, 2] -> [0, 1, 3] : tensor<8x32x64xbf16>, tensor<128x64xbf16> -> tensor<8x32x128xbf16>
  %8 = dtc.activation_grad gelu_tanh %2, %7 : tensor<8x32x128xbf16>
  %9 = arith.extf %8 : tensor<8x32x128xbf16> to tensor<8x32x128xf32>
  %10 = dtc.reduce sum %9 [0, 1] : tensor<8x32x128xf32> -> tensor<128xf32>
  %11 = dtc.contract %x [0, 1, 2], %8 [0, 1, 3] -> [2, 3] : tensor<8x32x64xbf16>, tensor<8x32x128xbf16> -> tensor<64x128xf32>
  return %6, %11, %10 : tensor<8x32x64xbf16>, tensor<64x128xf32>, tensor<128xf32>
}

// Weights of torch.nn.Linear: the gradient's first operand is what is summed up.
// CHECK-LABEL: @transposed_weight
// CHECK: exec.matmul %arg0, %arg1 {{.*}} epilogue <sum_lhs> : tensor<256x48xf32>, tensor<256x64xf32> -> tensor<48x64xf32>, tensor<48xf32>
// CHECK-NOT: dtc.reduce
func.func @transposed_weight(%dy: tensor<256x48xf32>, %x: tensor<256x64xf32>) -> (tensor<48x64xf32>, tensor<48xf32>) {
  %0 = dtc.reduce sum %dy [0] : tensor<256x48xf32> -> tensor<48xf32>
  %1 = dtc.contract %dy [0, 1], %x [0, 2] -> [1, 2] : tensor<256x48xf32>, tensor<256x64xf32> -> tensor<48x64xf32>
  return %1, %0 : tensor<48x64xf32>, tensor<48xf32>
}

// A bias of three dimensions is a row of the product; reshapes don't matter.
// CHECK-LABEL: @bias_of_heads
// CHECK: exec.matmul %arg0, %arg1 with %arg2 {{.*}} epilogue <bias>
// CHECK-NOT: arith.addf
func.func @bias_of_heads(%x: tensor<8x32x64xf32>, %w: tensor<64x3x4x16xf32>, %b: tensor<3x4x16xf32>) -> tensor<8x32x192xf32> {
  %0 = dtc.contract %x [0, 1, 5], %w [5, 2, 3, 4] -> [0, 1, 2, 3, 4] : tensor<8x32x64xf32>, tensor<64x3x4x16xf32> -> tensor<8x32x3x4x16xf32>
  %1 = dtc.broadcast %b [2, 3, 4] : tensor<3x4x16xf32> -> tensor<8x32x3x4x16xf32>
  %2 = arith.addf %1, %0 : tensor<8x32x3x4x16xf32>
  %3 = dtc.reshape %2 : tensor<8x32x3x4x16xf32> -> tensor<8x32x192xf32>
  return %3 : tensor<8x32x192xf32>
}

// None of these: the product is read elsewhere, the bias is one of rows, GELU is the exact one, a
// kernel reads GELU, columns aren't a multiple of 8, the sum isn't over the product's sum, fp64.
// CHECK-LABEL: @kept
// CHECK-NOT: epilogue
// CHECK: return
func.func @kept(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>, %odd: tensor<64x12xf32>, %d: tensor<32x32xf64>) -> (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x12xf32>, tensor<64x32xf32>, tensor<32xf32>, tensor<32x32xf64>, tensor<32xf64>) {
  %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<32x64xf32>, tensor<64x32xf32> -> tensor<32x32xf32>
  %1 = dtc.broadcast %b [1] : tensor<32xf32> -> tensor<32x32xf32>
  %2 = arith.addf %0, %1 : tensor<32x32xf32>
  %x2 = arith.negf %x : tensor<32x64xf32>
  %3 = dtc.contract %x2 [0, 2], %w [2, 1] -> [0, 1] : tensor<32x64xf32>, tensor<64x32xf32> -> tensor<32x32xf32>
  %4 = dtc.broadcast %b [0] : tensor<32xf32> -> tensor<32x32xf32>
  %5 = arith.addf %3, %4 : tensor<32x32xf32>
  %x3 = math.absf %x : tensor<32x64xf32>
  %6 = dtc.contract %x3 [0, 2], %w [2, 1] -> [0, 1] : tensor<32x64xf32>, tensor<64x32xf32> -> tensor<32x32xf32>
  %7 = dtc.activation gelu %6 : tensor<32x32xf32>
  %x4 = math.sqrt %x : tensor<32x64xf32>
  %8 = dtc.contract %x4 [0, 2], %w [2, 1] -> [0, 1] : tensor<32x64xf32>, tensor<64x32xf32> -> tensor<32x32xf32>
  %9 = dtc.activation gelu_tanh %8 : tensor<32x32xf32>
  %10 = arith.mulf %9, %2 : tensor<32x32xf32>
  %11 = dtc.contract %x [0, 2], %odd [2, 1] -> [0, 1] : tensor<32x64xf32>, tensor<64x12xf32> -> tensor<32x12xf32>
  %12 = dtc.activation gelu_tanh %11 : tensor<32x12xf32>
  %13 = dtc.contract %x [0, 1], %0 [0, 2] -> [1, 2] : tensor<32x64xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %14 = dtc.reduce sum %0 [1] : tensor<32x32xf32> -> tensor<32xf32>
  %15 = dtc.contract %d [0, 1], %d [0, 2] -> [1, 2] : tensor<32x32xf64>, tensor<32x32xf64> -> tensor<32x32xf64>
  %16 = dtc.reduce sum %d [0] : tensor<32x32xf64> -> tensor<32xf64>
  return %0, %2, %5, %7, %10, %12, %13, %14, %15, %16 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x12xf32>, tensor<64x32xf32>, tensor<32xf32>, tensor<32x32xf64>, tensor<32xf64>
}

// A sum that no product takes is made in slices of rows, as before.
// CHECK-LABEL: @sum_alone
// CHECK: dtc.reduce {{.*}} tensor<1x{{.*}}x64xf32>
func.func @sum_alone(%x: tensor<8192x64xf32>) -> tensor<64xf32> {
  %0 = dtc.reduce sum %x [0] : tensor<8192x64xf32> -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
