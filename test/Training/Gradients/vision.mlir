// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 154 elements}}
func.func @conv(%x: tensor<2x2x5x5xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<2x3x5x5xf32> attributes {check_gradients} {
  %y = dtc.conv %x, %w strides [1, 1] pad [1, 1], [1, 1] dilations [1, 1] groups 1
    : tensor<2x2x5x5xf32>, tensor<3x2x3x3xf32> -> tensor<2x3x5x5xf32>
  return %y : tensor<2x3x5x5xf32>
}

// The last column is never read: (6 - 3) / 2 leaves a rest.
// expected-remark@+1 {{gradient ok: 96 elements}}
func.func @strided(%x: tensor<1x2x5x6xf32>, %w: tensor<3x2x2x3xf32>) -> tensor<1x3x2x2xf32> attributes {check_gradients} {
  %y = dtc.conv %x, %w strides [2, 2] pad [0, 0], [0, 0] dilations [1, 1] groups 1
    : tensor<1x2x5x6xf32>, tensor<3x2x2x3xf32> -> tensor<1x3x2x2xf32>
  return %y : tensor<1x3x2x2xf32>
}

// expected-remark@+1 {{gradient ok: 108 elements}}
func.func @dilated_uneven_padding(%x: tensor<1x2x6x7xf32>, %w: tensor<3x2x2x2xf32>) -> tensor<1x3x6x4xf32> attributes {check_gradients} {
  %y = dtc.conv %x, %w strides [1, 2] pad [0, 2], [2, 1] dilations [2, 3] groups 1
    : tensor<1x2x6x7xf32>, tensor<3x2x2x2xf32> -> tensor<1x3x6x4xf32>
  return %y : tensor<1x3x6x4xf32>
}

// expected-remark@+1 {{gradient ok: 136 elements}}
func.func @grouped(%x: tensor<1x4x4x4xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x2x2xf32> attributes {check_gradients} {
  %y = dtc.conv %x, %w strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 2
    : tensor<1x4x4x4xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x2x2xf32>
  return %y : tensor<1x4x2x2xf32>
}

// expected-remark@+1 {{gradient ok: 42 elements}}
func.func @depthwise_1d(%x: tensor<2x3x5xf32>, %w: tensor<6x1x2xf32>) -> tensor<2x6x6xf32> attributes {check_gradients} {
  %y = dtc.conv %x, %w strides [1] pad [1], [1] dilations [1] groups 3
    : tensor<2x3x5xf32>, tensor<6x1x2xf32> -> tensor<2x6x6xf32>
  return %y : tensor<2x6x6xf32>
}

// expected-remark@+1 {{gradient ok: 100 elements}}
func.func @max_pool(%x: tensor<2x2x5x5xf32>) -> tensor<2x2x3x3xf32> attributes {check_gradients} {
  %y = dtc.max_pool %x kernel [3, 3] strides [2, 2] pad [1, 1], [1, 1] dilations [1, 1]
    : tensor<2x2x5x5xf32> -> tensor<2x2x3x3xf32>
  return %y : tensor<2x2x3x3xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @max_pool_dilated(%x: tensor<1x1x5x6xf32>) -> tensor<1x1x2x4xf32> attributes {check_gradients} {
  %y = dtc.max_pool %x kernel [2, 2] strides [2, 1] pad [0, 0], [0, 0] dilations [2, 2]
    : tensor<1x1x5x6xf32> -> tensor<1x1x2x4xf32>
  return %y : tensor<1x1x2x4xf32>
}
