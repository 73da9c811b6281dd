// RUN: dtc-opt %s --split-input-file --verify-diagnostics -o /dev/null

func.func @experts(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<2xi64>) {
  // expected-error @+1 {{one of lhs, rhs and result must have experts: 1, 128, 0}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [1, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<2xi64> -> tensor<2x8x8xbf16>
  return
}

// -----

func.func @choices(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<3xi64>) {
  // expected-error @+1 {{must have a choice for each of 2 products: 'tensor<3xi64>'}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<3xi64> -> tensor<2x8x8xbf16>
  return
}

// -----

func.func @beyond(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<2xi64>) {
  // expected-error @+1 {{addresses beyond the elements of its right operand: 4 times 128}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 4 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<2xi64> -> tensor<2x8x8xbf16>
  return
}

// -----

func.func @types(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xf16>, %c: tensor<2xi64>) {
  // expected-error @+1 {{must have operands of one float type}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xf16>, tensor<2xi64> -> tensor<2x8x8xbf16>
  return
}

// -----

func.func @columns(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<2xi64>) {
  // expected-error @+1 {{columns of the result must lie side by side: 64, 1, 8}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 1, 8] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<2xi64> -> tensor<2x8x8xbf16>
  return
}

// -----

func.func @far(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<2xi64>) {
  // expected-error @+1 {{addresses beyond the elements of its left operand: 2 times 9223372036854775807}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [9223372036854775807, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<2xi64> -> tensor<2x8x8xbf16>
  return
}

// -----

func.func @flags(%x: tensor<2x8x16xbf16>, %w: tensor<3x16x8xbf16>, %c: tensor<2xi1>) {
  // expected-error @+1 {{choices must be i32 or i64: 'tensor<2xi1>'}}
  %0 = exec.grouped_matmul %x, %w by %c batch [2] mnk [8, 8, 16] of 3 experts [0, 128, 0] strides [128, 16, 1], [0, 8, 1] -> [64, 8, 1] : tensor<2x8x16xbf16>, tensor<3x16x8xbf16>, tensor<2xi1> -> tensor<2x8x8xbf16>
  return
}
