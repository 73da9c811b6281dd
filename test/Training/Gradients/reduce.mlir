// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @sum(%x: tensor<2x3x5xf32>) -> tensor<3xf32> attributes {check_gradients} {
  %y = dtc.reduce sum %x [0, 2] : tensor<2x3x5xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @max(%x: tensor<2x3x5xf32>) -> tensor<2x3xf32> attributes {check_gradients} {
  %y = dtc.reduce max %x [2] : tensor<2x3x5xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @min(%x: tensor<2x3x5xf32>) -> tensor<5xf32> attributes {check_gradients} {
  %y = dtc.reduce min %x [0, 1] : tensor<2x3x5xf32> -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// Every element twice: ties share the gradient evenly.
// expected-remark@+1 {{gradient ok: 6 elements}}
func.func @max_of_ties(%x: tensor<2x3xf32>) -> tensor<3xf32> attributes {check_gradients} {
  %twice = dtc.concat 0 (%x, %x) : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  %y = dtc.reduce max %twice [0] : tensor<4x3xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @prod(%x: tensor<2x3x5xf32>) -> tensor<2x5xf32> attributes {check_gradients} {
  %y = dtc.reduce prod %x [1] : tensor<2x3x5xf32> -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// Rows with no, one and two zeros.
// expected-remark@+1 {{gradient ok: 9 elements}}
func.func @prod_with_zeros(%x: tensor<3x3xf32>) -> tensor<3xf32> attributes {check_gradients} {
  %mask = arith.constant dense<[[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]> : tensor<3x3xf32>
  %masked = arith.mulf %x, %mask : tensor<3x3xf32>
  %y = dtc.reduce prod %masked [1] : tensor<3x3xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// expected-remark@+1 {{gradient ok: 8 elements}}
func.func @cumsum(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {check_gradients} {
  %y = dtc.cumsum %x 1 : tensor<2x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// expected-remark@+1 {{gradient ok: 8 elements}}
func.func @cumsum_exclusive(%x: tensor<4x2xf32>) -> tensor<4x2xf32> attributes {check_gradients} {
  %y = dtc.cumsum %x 0 exclusive : tensor<4x2xf32> -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// expected-remark@+1 {{gradient ok: 8 elements}}
func.func @cumsum_reverse_exclusive(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {check_gradients} {
  %y = dtc.cumsum %x 1 exclusive reverse : tensor<2x4xf32> -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// expected-remark@+1 {{gradient ok: 18 elements}}
func.func @sum_of_tensors(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {check_gradients} {
  %y = dtc.sum %a, %b, %c, %a : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
