// cuDNN has no gradient in fp32 of weights in bf16; oneDNN has.
// RUN: dtc-opt --target=cuda %s --dtc-decompose-layers | FileCheck %s
// RUN: %if bf16-products %{ dtc-opt %s --dtc-decompose-layers | FileCheck %s --check-prefix=WIDE %}
// Without AVX-512, which oneDNN can be told not to use, it has no convolution of bf16.
// RUN: env ONEDNN_MAX_CPU_ISA=AVX2 dtc-opt %s --dtc-decompose-layers | FileCheck %s --check-prefix=COPIES

// CHECK-LABEL: @rounded
// CHECK: %[[NARROW:.*]] = dtc.conv_weight_grad {{.*}} -> tensor<12x8x3x3xbf16>
// CHECK: %[[RESULT:.*]] = arith.extf %[[NARROW]] : tensor<12x8x3x3xbf16> to tensor<12x8x3x3xf32>
// CHECK: return %[[RESULT]]
// COPIES-LABEL: @rounded
// COPIES: dtc.conv_weight_grad {{.*}}xf32>, tensor<{{.*}}xf32> -> tensor<12x8x3x3xf32>
// COPIES-LABEL: @kept
// WIDE-LABEL: @rounded
// WIDE-NEXT: %[[RESULT:.*]] = dtc.conv_weight_grad {{.*}} -> tensor<12x8x3x3xf32>
// WIDE-NEXT: return %[[RESULT]]
func.func @rounded(%x: tensor<4x8x5x5xbf16>, %y: tensor<4x12x3x3xbf16>) -> tensor<12x8x3x3xf32> {
  %0 = dtc.conv_weight_grad %x, %y strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xbf16>, tensor<4x12x3x3xbf16> -> tensor<12x8x3x3xf32>
  return %0 : tensor<12x8x3x3xf32>
}

// CHECK-LABEL: @kept
// CHECK-NEXT: dtc.conv_weight_grad {{.*}} -> tensor<12x8x3x3xf32>
// CHECK-NEXT: return
func.func @kept(%x: tensor<4x8x5x5xf32>, %y: tensor<4x12x3x3xf32>) -> tensor<12x8x3x3xf32> {
  %0 = dtc.conv_weight_grad %x, %y strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1] groups 1 : tensor<4x8x5x5xf32>, tensor<4x12x3x3xf32> -> tensor<12x8x3x3xf32>
  return %0 : tensor<12x8x3x3xf32>
}
