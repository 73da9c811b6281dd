// A block of ConvNeXt: a convolution, a norm over its channels, two products with biases, of which GELU by way of erf
// reads the first, the residual sum, and a norm before the next convolution. Tensors are turned for the norms by the
// kernels that read them, and for convolutions by kernels of their own, which the planner prices.
// RUN: dtc-opt --dtc-train=precision=fp32 %s -o %t
// RUN: dtc-opt --target=cuda --test-kernel-parts %t -o /dev/null | FileCheck %s

// CHECK: priced: 21 launches, 191374152 bytes
// CHECK: formed: 22 launches, 191896248 bytes
module {
  dtc.parameter trainable @stem : tensor<64x3x4x4xf32> file tensor<64x3x4x4xf32>
  dtc.parameter trainable @dw : tensor<64x1x7x7xf32> file tensor<64x1x7x7xf32>
  dtc.parameter trainable @dwb : tensor<64xf32> file tensor<64xf32>
  dtc.parameter trainable @g : tensor<64xf32> file tensor<64xf32>
  dtc.parameter trainable @b : tensor<64xf32> file tensor<64xf32>
  dtc.parameter trainable @w1 : tensor<256x64xf32> file tensor<256x64xf32>
  dtc.parameter trainable @b1 : tensor<256xf32> file tensor<256xf32>
  dtc.parameter trainable @w2 : tensor<64x256xf32> file tensor<64x256xf32>
  dtc.parameter trainable @b2 : tensor<64xf32> file tensor<64xf32>
  dtc.parameter trainable @down : tensor<64x64x2x2xf32> file tensor<64x64x2x2xf32>
  dtc.parameter trainable @g2 : tensor<64xf32> file tensor<64xf32>
  dtc.parameter trainable @b3 : tensor<64xf32> file tensor<64xf32>
  dtc.parameter trainable @head : tensor<40x64xf32> file tensor<40x64xf32>
  func.func @forward(%x: tensor<4x3x256x256xf32> {dtc.role = #dtc.role<input, "x">},
      %stem: tensor<64x3x4x4xf32> {dtc.role = #dtc.role<parameter, "stem">},
      %dw: tensor<64x1x7x7xf32> {dtc.role = #dtc.role<parameter, "dw">},
      %dwb: tensor<64xf32> {dtc.role = #dtc.role<parameter, "dwb">},
      %g: tensor<64xf32> {dtc.role = #dtc.role<parameter, "g">},
      %b: tensor<64xf32> {dtc.role = #dtc.role<parameter, "b">},
      %w1: tensor<256x64xf32> {dtc.role = #dtc.role<parameter, "w1">},
      %b1: tensor<256xf32> {dtc.role = #dtc.role<parameter, "b1">},
      %w2: tensor<64x256xf32> {dtc.role = #dtc.role<parameter, "w2">},
      %b2: tensor<64xf32> {dtc.role = #dtc.role<parameter, "b2">},
      %down: tensor<64x64x2x2xf32> {dtc.role = #dtc.role<parameter, "down">},
      %g2: tensor<64xf32> {dtc.role = #dtc.role<parameter, "g2">},
      %b3: tensor<64xf32> {dtc.role = #dtc.role<parameter, "b3">},
      %head: tensor<40x64xf32> {dtc.role = #dtc.role<parameter, "head">})
      -> (tensor<4x40xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %v0 = dtc.conv %x, %stem strides [4, 4] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<4x3x256x256xf32>, tensor<64x3x4x4xf32> -> tensor<4x64x64x64xf32>
    %v1 = dtc.conv %v0, %dw strides [1, 1] pad [3, 3], [3, 3] dilations [1, 1] groups 64 : tensor<4x64x64x64xf32>, tensor<64x1x7x7xf32> -> tensor<4x64x64x64xf32>
    %v2 = dtc.broadcast %dwb [1] : tensor<64xf32> -> tensor<4x64x64x64xf32>
    %v3 = arith.addf %v1, %v2 : tensor<4x64x64x64xf32>
    %v4 = dtc.transpose %v3 [0, 2, 3, 1] : tensor<4x64x64x64xf32> -> tensor<4x64x64x64xf32>
    %v5, %m5, %r5 = dtc.layer_norm %v4 scale %g : tensor<64xf32> bias %b : tensor<64xf32> eps 1.0e-6 : tensor<4x64x64x64xf32> -> tensor<4x64x64x64xf32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>
    %v6 = dtc.contract %v5 [0, 1, 2, 4], %w1 [3, 4] -> [0, 1, 2, 3] : tensor<4x64x64x64xf32>, tensor<256x64xf32> -> tensor<4x64x64x256xf32>
    %v7 = dtc.broadcast %b1 [3] : tensor<256xf32> -> tensor<4x64x64x256xf32>
    %v8 = arith.addf %v6, %v7 : tensor<4x64x64x256xf32>
    %v9 = dtc.activation gelu %v8 : tensor<4x64x64x256xf32>
    %v10 = dtc.contract %v9 [0, 1, 2, 4], %w2 [3, 4] -> [0, 1, 2, 3] : tensor<4x64x64x256xf32>, tensor<64x256xf32> -> tensor<4x64x64x64xf32>
    %v11 = dtc.broadcast %b2 [3] : tensor<64xf32> -> tensor<4x64x64x64xf32>
    %v12 = arith.addf %v10, %v11 : tensor<4x64x64x64xf32>
    %v13 = dtc.transpose %v12 [0, 3, 1, 2] : tensor<4x64x64x64xf32> -> tensor<4x64x64x64xf32>
    %v14 = arith.addf %v0, %v13 : tensor<4x64x64x64xf32>
    %v15 = dtc.transpose %v14 [0, 2, 3, 1] : tensor<4x64x64x64xf32> -> tensor<4x64x64x64xf32>
    %v16, %m16, %r16 = dtc.layer_norm %v15 scale %g2 : tensor<64xf32> bias %b3 : tensor<64xf32> eps 1.0e-6 : tensor<4x64x64x64xf32> -> tensor<4x64x64x64xf32>, tensor<4x64x64xf32>, tensor<4x64x64xf32>
    %v17 = dtc.transpose %v16 [0, 3, 1, 2] : tensor<4x64x64x64xf32> -> tensor<4x64x64x64xf32>
    %v18 = dtc.conv %v17, %down strides [2, 2] pad [0, 0], [0, 0] dilations [1, 1] groups 1 : tensor<4x64x64x64xf32>, tensor<64x64x2x2xf32> -> tensor<4x64x32x32xf32>
    %v19 = dtc.reduce sum %v18 [2, 3] : tensor<4x64x32x32xf32> -> tensor<4x64xf32>
    %v20 = dtc.contract %v19 [0, 2], %head [1, 2] -> [0, 1] : tensor<4x64xf32>, tensor<40x64xf32> -> tensor<4x40xf32>
    return %v20 : tensor<4x40xf32>
  }
}
