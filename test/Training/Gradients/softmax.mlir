// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @last(%x: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> attributes {check_gradients} {
  %y = dtc.softmax %x 2 : tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @middle(%x: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> attributes {check_gradients} {
  %y = dtc.softmax %x 1 : tensor<2x3x5xf32>
  return %y : tensor<2x3x5xf32>
}

// A row of nothing but -inf, and one with some.
// expected-remark@+1 {{gradient ok: 9 elements}}
func.func @masked(%x: tensor<3x3xf32>) -> tensor<3x3xf32> attributes {check_gradients} {
  %mask = arith.constant dense<[[0.0, 0xFF800000, 0.0], [0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %masked = arith.addf %x, %mask : tensor<3x3xf32>
  %y = dtc.softmax %masked 1 : tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}
