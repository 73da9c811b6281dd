// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// The backward pass draws what the forward pass drew.
// expected-remark@+1 {{gradient ok: 24 elements}}
func.func @drawn(%x: tensor<3x4x2xf32>) -> tensor<3x4x2xf32> attributes {check_gradients} {
  %keys = arith.constant dense<[7, 8, 9]> : tensor<3xi64>
  %0 = dtc.dropout %x keys %keys : tensor<3xi64> ratio 0.5 {number = 3} : tensor<3x4x2xf32>
  %1 = arith.mulf %0, %0 : tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}
