// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 42 elements}}
func.func @drawn(%x: tensor<2x3x7xf32>, %target: tensor<2x3xi64> {test.bound = 7 : i64}) -> tensor<2x3xf32> attributes {check_gradients} {
  %loss, %lse = dtc.cross_entropy %x, %target ignore -100 : tensor<2x3x7xf32>, tensor<2x3xi64> -> tensor<2x3xf32>, tensor<2x3xf32>
  return %loss : tensor<2x3xf32>
}

// expected-remark@+1 {{gradient ok: 20 elements}}
func.func @ignored(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {check_gradients} {
  %target = arith.constant dense<[4, -100, 0, -100]> : tensor<4xi64>
  %loss, %lse = dtc.cross_entropy %x, %target ignore -100 : tensor<4x5xf32>, tensor<4xi64> -> tensor<4xf32>, tensor<4xf32>
  return %loss : tensor<4xf32>
}

// The ignored target is a class.
// expected-remark@+1 {{gradient ok: 20 elements}}
func.func @ignored_class(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {check_gradients} {
  %target = arith.constant dense<[4, 0, 2, 0]> : tensor<4xi32>
  %loss, %lse = dtc.cross_entropy %x, %target ignore 0 : tensor<4x5xf32>, tensor<4xi32> -> tensor<4xf32>, tensor<4xf32>
  return %loss : tensor<4xf32>
}
