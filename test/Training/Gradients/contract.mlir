// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 44 elements}}
func.func @matmul(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x5xf32> attributes {check_gradients} {
  %y = dtc.contract %x [0, 1, 3], %w [3, 2] -> [0, 1, 2] : tensor<2x3x4xf32>, tensor<4x5xf32> -> tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// A transposed weight and a permuted result.
// expected-remark@+1 {{gradient ok: 44 elements}}
func.func @permuted(%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>) -> tensor<5x3x2xf32> attributes {check_gradients} {
  %y = dtc.contract %x [1, 2, 0], %w [3, 0] -> [3, 2, 1] : tensor<2x3x4xf32>, tensor<5x4xf32> -> tensor<5x3x2xf32>
  return %y : tensor<5x3x2xf32>
}

// Batch indices and two summed ones.
// expected-remark@+1 {{gradient ok: 132 elements}}
func.func @batched(%x: tensor<2x3x3x4xf32>, %y: tensor<2x3x2x5xf32>) -> tensor<2x3x4x2x5xf32> attributes {check_gradients} {
  %0 = dtc.contract %x [0, 1, 2, 3], %y [0, 1, 4, 5] -> [0, 1, 2, 3, 4, 5] : tensor<2x3x3x4xf32>, tensor<2x3x2x5xf32> -> tensor<2x3x3x4x2x5xf32>
  %1 = dtc.reduce sum %0 [2] : tensor<2x3x3x4x2x5xf32> -> tensor<2x3x4x2x5xf32>
  return %1 : tensor<2x3x4x2x5xf32>
}

// expected-remark@+1 {{gradient ok: 48 elements}}
func.func @two_sums(%x: tensor<2x3x4xf32>, %y: tensor<3x4x2xf32>) -> tensor<2x2xf32> attributes {check_gradients} {
  %0 = dtc.contract %x [0, 1, 2], %y [1, 2, 3] -> [3, 0] : tensor<2x3x4xf32>, tensor<3x4x2xf32> -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// The result wider than the operands, and an operand contracted with itself.
// expected-remark@+1 {{gradient ok: 12 elements}}
func.func @gram(%x: tensor<3x4xbf16>) -> tensor<3x3xf32> attributes {check_gradients} {
  %0 = dtc.contract %x [0, 2], %x [1, 2] -> [0, 1] : tensor<3x4xbf16>, tensor<3x4xbf16> -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// expected-remark@+1 {{gradient ok: 8 elements}}
func.func @outer_and_inner(%x: tensor<3xf32>, %y: tensor<5xf32>) -> (tensor<5x3xf32>, tensor<f32>) attributes {check_gradients} {
  %0 = dtc.contract %x [0], %y [1] -> [1, 0] : tensor<3xf32>, tensor<5xf32> -> tensor<5x3xf32>
  %1 = dtc.contract %x [0], %x [0] -> [] : tensor<3xf32>, tensor<3xf32> -> tensor<f32>
  return %0, %1 : tensor<5x3xf32>, tensor<f32>
}
