// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 5 elements}}
func.func @broadcast(%x: tensor<5xf32>) -> tensor<3x5x2xf32> attributes {check_gradients} {
  %y = dtc.broadcast %x [1] : tensor<5xf32> -> tensor<3x5x2xf32>
  return %y : tensor<3x5x2xf32>
}

// expected-remark@+1 {{gradient ok: 1 elements}}
func.func @broadcast_scalar(%x: tensor<f32>) -> tensor<3x2xf32> attributes {check_gradients} {
  %y = dtc.broadcast %x [] : tensor<f32> -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// expected-remark@+1 {{gradient ok: 24 elements}}
func.func @reshape(%x: tensor<4x6xf32>) -> tensor<3x8xf32> attributes {check_gradients} {
  %y = dtc.reshape %x : tensor<4x6xf32> -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @transpose(%x: tensor<2x3x5xf32>) -> tensor<5x2x3xf32> attributes {check_gradients} {
  %y = dtc.transpose %x [2, 0, 1] : tensor<2x3x5xf32> -> tensor<5x2x3xf32>
  return %y : tensor<5x2x3xf32>
}

// expected-remark@+1 {{gradient ok: 35 elements}}
func.func @slice(%x: tensor<5x7xf32>) -> tensor<2x3xf32> attributes {check_gradients} {
  %y = dtc.slice %x offsets [1, 0] strides [2, 3] : tensor<5x7xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// A stride beyond the end is allowed where a single element is taken.
// expected-remark@+1 {{gradient ok: 35 elements}}
func.func @slice_single(%x: tensor<5x7xf32>) -> tensor<1x7xf32> attributes {check_gradients} {
  %y = dtc.slice %x offsets [3, 0] strides [9, 1] : tensor<5x7xf32> -> tensor<1x7xf32>
  return %y : tensor<1x7xf32>
}

// expected-remark@+1 {{gradient ok: 6 elements}}
func.func @pad(%x: tensor<2x3xf32>) -> tensor<5x9xf32> attributes {check_gradients} {
  %y = dtc.pad %x low [1, 2] interior [2, 1] value 3.0 : tensor<2x3xf32> -> tensor<5x9xf32>
  return %y : tensor<5x9xf32>
}

// expected-remark@+1 {{gradient ok: 18 elements}}
func.func @concat(%a: tensor<3x1xf32>, %b: tensor<3x3xf32>, %c: tensor<3x2xf32>) -> tensor<3x6xf32> attributes {check_gradients} {
  %y = dtc.concat 1 (%a, %b, %c) : tensor<3x1xf32>, tensor<3x3xf32>, tensor<3x2xf32> -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}

// An iota has no operand, but may stand beside values that have gradients.
// expected-remark@+1 {{gradient ok: 6 elements}}
func.func @iota(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {check_gradients} {
  %i = dtc.iota 1 : tensor<2x3xf32>
  %y = arith.mulf %x, %i : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// Pieces that tile a dimension, pieces that overlap, pieces with a gap.
// expected-remark@+1 {{gradient ok: 12 elements}}
func.func @slices(%x: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x2xf32>) attributes {check_gradients} {
  %e = math.exp %x : tensor<2x6xf32>
  %a = dtc.slice %e offsets [0, 2] strides [1, 1] : tensor<2x6xf32> -> tensor<2x4xf32>
  %b = dtc.slice %e offsets [0, 0] strides [1, 1] : tensor<2x6xf32> -> tensor<2x2xf32>
  %y = dtc.concat 1 (%a, %b) : tensor<2x4xf32>, tensor<2x2xf32> -> tensor<2x6xf32>
  %s = math.sin %x : tensor<2x6xf32>
  %c = dtc.slice %s offsets [0, 1] strides [1, 1] : tensor<2x6xf32> -> tensor<2x2xf32>
  %d = dtc.slice %s offsets [0, 2] strides [1, 1] : tensor<2x6xf32> -> tensor<2x2xf32>
  %z = arith.mulf %c, %d : tensor<2x2xf32>
  return %y, %z : tensor<2x6xf32>, tensor<2x2xf32>
}

// expected-remark@+1 {{gradient ok: 5 elements}}
func.func @barrier(%x: tensor<5xf32>) -> tensor<5xf32> attributes {check_gradients} {
  %a = dtc.barrier %x : tensor<5xf32>
  %y = arith.mulf %a, %a : tensor<5xf32>
  return %y : tensor<5xf32>
}
