// Products and convolutions add to what accumulates them where the target's library does.
// RUN: dtc-opt --target=cuda %s --dtc-layers-to-kernels | FileCheck %s
// RUN: env DTC_CUBLASLT_EPILOGUES=0 dtc-opt --target=cuda %s --dtc-layers-to-kernels | FileCheck %s --check-prefix=PLAIN
// RUN: dtc-opt --target=cpu %s --dtc-layers-to-kernels | FileCheck %s --check-prefix=CPU
// CPU-NOT: exec.{{matmul|conv_weight_grad}} {{.*}} with

// The bias' gradient is a sum beside the product, and a kernel adds that one up.
// CHECK-LABEL: @linear
// CHECK: %[[W:.*]], %[[B:.*]] = exec.matmul %arg0, %arg1 with %arg2 batch [] mnk [64, 48, 256] {{.*}} epilogue <sum_rhs> : tensor<8x32x64xbf16>, tensor<8x32x48xbf16>, tensor<64x3x16xf32> -> tensor<64x3x16xf32>, tensor<48xf32>
// CHECK-NOT: exec.matmul
// CHECK: %[[SUM:.*]] = exec.launch @{{.*}}(%arg3, %[[B]])
// CHECK-NOT: exec.launch
// CHECK: return %[[W]], %[[SUM]]
// PLAIN-LABEL: @linear
// PLAIN: exec.matmul %arg0, %arg1 with %arg2 batch [] mnk [64, 48, 256] strides [1, 64], [48, 1] -> [48, 1] offsets [0, 0] : tensor<8x32x64xbf16>, tensor<8x32x48xbf16>, tensor<64x3x16xf32> -> tensor<64x3x16xf32>
func.func @linear(%x: tensor<8x32x64xbf16>, %dy: tensor<8x32x48xbf16>,
                  %w: tensor<64x3x16xf32> {dtc.role = #dtc.role<gradient, "w">}, %b: tensor<48xf32> {dtc.role = #dtc.role<gradient, "b">})
    -> (tensor<64x3x16xf32> {dtc.role = #dtc.role<gradient, "w">}, tensor<48xf32> {dtc.role = #dtc.role<gradient, "b">}) {
  %0 = dtc.contract %x [0, 1, 2], %dy [0, 1, 3] -> [2, 3] : tensor<8x32x64xbf16>, tensor<8x32x48xbf16> -> tensor<64x48xf32>
  %1 = dtc.reshape %0 : tensor<64x48xf32> -> tensor<64x3x16xf32>
  %2 = dtc.sum %w, %1 : tensor<64x3x16xf32>
  %3 = arith.extf %dy : tensor<8x32x48xbf16> to tensor<8x32x48xf32>
  %4 = dtc.reduce sum %3 [0, 1] : tensor<8x32x48xf32> -> tensor<48xf32>
  %5 = dtc.sum %b, %4 : tensor<48xf32>
  return %2, %5 : tensor<64x3x16xf32>, tensor<48xf32>
}

// Experts are a batch.
// CHECK-LABEL: @experts
// CHECK: exec.matmul %arg0, %arg1 with %arg2 batch [4] {{.*}} : tensor<4x32x8xf32>, tensor<4x32x16xf32>, tensor<4x8x16xf32> -> tensor<4x8x16xf32>
// CHECK-NOT: exec.launch
// CHECK: return
func.func @experts(%x: tensor<4x32x8xf32>, %dy: tensor<4x32x16xf32>, %w: tensor<4x8x16xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<4x8x16xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %0 = dtc.contract %x [0, 1, 2], %dy [0, 1, 3] -> [0, 2, 3] : tensor<4x32x8xf32>, tensor<4x32x16xf32> -> tensor<4x8x16xf32>
  %1 = dtc.sum %w, %0 : tensor<4x8x16xf32>
  return %1 : tensor<4x8x16xf32>
}

// The product is read elsewhere, or the sum has three terms, or it isn't one of gradients of microbatches, or something else reads
// what was before.
// CHECK-LABEL: @others
// CHECK-NOT: exec.matmul {{.*}} with
// CHECK: return
func.func @others(%x: tensor<32x8xf32>, %dy: tensor<32x16xf32>, %a: tensor<8x16xf32> {dtc.role = #dtc.role<gradient, "a">},
                  %b: tensor<8x16xf32> {dtc.role = #dtc.role<gradient, "b">}, %c: tensor<8x16xf32> {dtc.role = #dtc.role<parameter, "c">},
                  %d: tensor<8x16xf32> {dtc.role = #dtc.role<gradient, "d">}, %half: tensor<16x8xf32>)
    -> (tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>) {
  %0 = dtc.contract %x [0, 1], %dy [0, 2] -> [1, 2] : tensor<32x8xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %1 = dtc.sum %a, %0 : tensor<8x16xf32>
  %2 = dtc.contract %0 [0, 1], %half [1, 2] -> [0, 2] : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  %3 = math.exp %dy : tensor<32x16xf32>
  %4 = dtc.contract %x [0, 1], %3 [0, 2] -> [1, 2] : tensor<32x8xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %5 = math.exp %x : tensor<32x8xf32>
  %6 = dtc.contract %5 [0, 1], %dy [0, 2] -> [1, 2] : tensor<32x8xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %7 = dtc.sum %b, %4, %6 : tensor<8x16xf32>
  %8 = dtc.contract %5 [0, 1], %3 [0, 2] -> [1, 2] : tensor<32x8xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %9 = dtc.sum %c, %8 : tensor<8x16xf32>
  %10 = math.tanh %x : tensor<32x8xf32>
  %11 = dtc.contract %10 [0, 1], %dy [0, 2] -> [1, 2] : tensor<32x8xf32>, tensor<32x16xf32> -> tensor<8x16xf32>
  %12 = dtc.sum %d, %11 : tensor<8x16xf32>
  %13 = dtc.contract %d [0, 1], %half [1, 2] -> [0, 2] : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  return %1, %2, %7, %9, %12, %13 : tensor<8x16xf32>, tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: @convolution
// CHECK: %[[W:.*]] = exec.conv_weight_grad %arg0, %arg1 with %arg2 strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
// CHECK-NEXT: return %[[W]]
func.func @convolution(%x: tensor<4x8x5x5xf32>, %dy: tensor<4x12x3x3xf32>, %w: tensor<12x8x3x3xf32> {dtc.role = #dtc.role<gradient, "w">})
    -> (tensor<12x8x3x3xf32> {dtc.role = #dtc.role<gradient, "w">}) {
  %0 = dtc.conv_weight_grad %x, %dy strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
  %1 = dtc.sum %w, %0 : tensor<12x8x3x3xf32>
  return %1 : tensor<12x8x3x3xf32>
}

// The library rounds a gradient in half precision, which a kernel widens. Or the gradient is read in another shape, or twice.
// CHECK-LABEL: @other_convolutions
// CHECK-NOT: exec.conv_weight_grad
// CHECK: return
func.func @other_convolutions(%half: tensor<4x8x5x5xbf16>, %dhalf: tensor<4x12x3x3xbf16>, %x: tensor<4x8x5x5xf32>, %dy: tensor<4x12x3x3xf32>,
                              %a: tensor<12x8x3x3xf32> {dtc.role = #dtc.role<gradient, "a">},
                              %b: tensor<12x72xf32> {dtc.role = #dtc.role<gradient, "b">},
                              %c: tensor<12x8x3x3xf32> {dtc.role = #dtc.role<gradient, "c">})
    -> (tensor<12x8x3x3xf32>, tensor<12x72xf32>, tensor<12x8x3x3xf32>, tensor<12x8x3x3xf32>) {
  %0 = dtc.conv_weight_grad %half, %dhalf strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xbf16>, tensor<4x12x3x3xbf16> -> tensor<12x8x3x3xf32>
  %1 = dtc.sum %a, %0 : tensor<12x8x3x3xf32>
  %2 = dtc.conv_weight_grad %x, %dy strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
  %3 = dtc.reshape %2 : tensor<12x8x3x3xf32> -> tensor<12x72xf32>
  %4 = dtc.sum %b, %3 : tensor<12x72xf32>
  %5 = math.exp %x : tensor<4x8x5x5xf32>
  %6 = dtc.conv_weight_grad %5, %dy strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
  %7 = dtc.sum %c, %6 : tensor<12x8x3x3xf32>
  return %1, %4, %7, %6 : tensor<12x8x3x3xf32>, tensor<12x72xf32>, tensor<12x8x3x3xf32>, tensor<12x8x3x3xf32>
}
