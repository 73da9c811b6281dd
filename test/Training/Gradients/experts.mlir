// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// Choices are 0, 1, 2 and 3; expert 3 isn't there.
// expected-remark@+1 {{gradient ok: 108 elements}}
func.func @layer(%x: tensor<2x4x6xf32>, %w: tensor<3x5x4xf32>) -> tensor<2x4x5xf32> attributes {check_gradients} {
  %i = arith.constant dense<[[0, 1, 3, 1], [2, 2, 0, 1]]> : tensor<2x4xi64>
  %0 = dtc.slice %x offsets [0, 0, 1] strides [1, 1, 1] : tensor<2x4x6xf32> -> tensor<2x4x4xf32>
  %1 = dtc.dispatch %0, %i experts 3 : tensor<2x4x4xf32>, tensor<2x4xi64>
  %2 = dtc.grouped_contract %1 [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %i [0, 1] of 2 : tensor<2x4x4xf32>, tensor<3x5x4xf32>, tensor<2x4xi64> -> tensor<2x4x5xf32>
  %3 = dtc.combine %2, %i experts 3 : tensor<2x4x5xf32>, tensor<2x4xi64>
  return %3 : tensor<2x4x5xf32>
}

// Weights come first and are transposed.
// expected-remark@+1 {{gradient ok: 92 elements}}
func.func @transposed(%w: tensor<5x3x4xf32>, %x: tensor<2x4x4xf32>) -> tensor<2x5x4xf32> attributes {check_gradients} {
  %i = arith.constant dense<[[0, 1, 0, 1], [2, 2, 0, 1]]> : tensor<2x4xi64>
  %0 = dtc.grouped_contract %w [3, 2, 4], %x [0, 1, 4] -> [0, 3, 1] by %i [0, 1] of 2 : tensor<5x3x4xf32>, tensor<2x4x4xf32>, tensor<2x4xi64> -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}
