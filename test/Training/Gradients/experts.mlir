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

// Rows in slots of 2 parts with 2 experts each; row 6 finds part 0 full.
// expected-remark@+1 {{gradient ok: 100 elements}}
func.func @slots(%x: tensor<1x8x5xf32>, %w: tensor<2x2x3x5xf32>) -> tensor<1x8x3xf32> attributes {check_gradients} {
  %i = arith.constant dense<[[0, 1, 3, 1, 2, 3, 0, 2]]> : tensor<1x8xi64>
  %first = arith.constant dense<[[[0, 0, 0], [2, 2, 2]]]> : tensor<1x2x3xi64>
  %s = dtc.expert_slots %i experts 4 sections 1 parts 2 capacity 3 : tensor<1x8xi64>
  %0 = dtc.to_slots %x, %s : tensor<1x8x5xf32>, tensor<1x8xi64> -> tensor<1x2x3x5xf32>
  %1 = dtc.to_slots %i, %s : tensor<1x8xi64>, tensor<1x8xi64> -> tensor<1x2x3xi64>
  %2 = arith.subi %1, %first : tensor<1x2x3xi64>
  %3 = dtc.grouped_contract %0 [0, 4, 1, 5], %w [4, 2, 3, 5] -> [0, 4, 1, 3] by %2 [0, 4, 1] of 2 : tensor<1x2x3x5xf32>, tensor<2x2x3x5xf32>, tensor<1x2x3xi64> -> tensor<1x2x3x3xf32>
  %4 = dtc.from_slots %3, %s : tensor<1x2x3x3xf32>, tensor<1x8xi64> -> tensor<1x8x3xf32>
  return %4 : tensor<1x8x3xf32>
}

// Each of a token's two rows has its token's slot of its expert.
// expected-remark@+1 {{gradient ok: 100 elements}}
func.func @slots_of_tokens(%x: tensor<1x8x5xf32>, %w: tensor<4x3x5xf32>) -> tensor<1x8x3xf32> attributes {check_gradients} {
  %i = arith.constant dense<[[0, 1, 3, 1, 2, 3, 0, 2]]> : tensor<1x8xi64>
  %s = dtc.expert_slots %i experts 4 sections 1 parts 4 capacity 4 apart 2 : tensor<1x8xi64>
  %0 = dtc.to_slots %x, %s apart 2 : tensor<1x8x5xf32>, tensor<1x8xi64> -> tensor<1x4x4x5xf32>
  %1 = dtc.contract %0 [0, 1, 2, 4], %w [1, 3, 4] -> [0, 1, 2, 3] : tensor<1x4x4x5xf32>, tensor<4x3x5xf32> -> tensor<1x4x4x3xf32>
  %2 = dtc.from_slots %1, %s apart 2 : tensor<1x4x4x3xf32>, tensor<1x8xi64> -> tensor<1x8x3xf32>
  return %2 : tensor<1x8x3xf32>
}
