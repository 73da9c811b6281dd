// RUN: dtc-opt --dtc-train="class-multiple=8" %s | FileCheck %s

// The first parameter is read by something else, too.
// CHECK: dtc.parameter trainable @w : tensor<509x8xf32> file tensor<509x8xf32>
// CHECK: dtc.cross_entropy {{.*}} : tensor<4x509xf32>
module {
  dtc.parameter trainable @w : tensor<509x8xf32> file tensor<509x8xf32>

  func.func @forward(
      %w: tensor<509x8xf32> {dtc.role = #dtc.role<parameter, "w">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x509xf32> {dtc.role = #dtc.role<output, "logits">}) {
    %sum = dtc.reduce sum %w [0] : tensor<509x8xf32> -> tensor<8xf32>
    %all = dtc.broadcast %sum [1] : tensor<8xf32> -> tensor<4x8xf32>
    %0 = arith.mulf %x, %all : tensor<4x8xf32>
    %1 = dtc.contract %0 [0, 2], %w [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<509x8xf32> -> tensor<4x509xf32>
    return %1 : tensor<4x509xf32>
  }
}
