// Rows that are parameters themselves, and look up frozen weights: no product has a weight to adapt.
// RUN: not dtc-opt --dtc-train="optimizer=sgd loss=mse adapter-rank=2" %s 2>&1 | FileCheck %s

// CHECK: error: the model has no product with a trainable weight to adapt
dtc.parameter @w : tensor<4x10x6xf32> file tensor<4x10x6xf32>
dtc.parameter trainable @x : tensor<2x8x6xf32> file tensor<2x8x6xf32>

func.func @forward(
    %i: tensor<2x8xi64> {dtc.role = #dtc.role<input, "i">},
    %x: tensor<2x8x6xf32> {dtc.role = #dtc.role<parameter, "x">},
    %w: tensor<4x10x6xf32> {dtc.role = #dtc.role<parameter, "w">})
    -> (tensor<2x8x10xf32> {dtc.role = #dtc.role<output, "y">}) {
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %i [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<2x8x10xf32>
  return %0 : tensor<2x8x10xf32>
}
