// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @relu(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = dtc.activation relu %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @gelu(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = dtc.activation gelu %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @gelu_tanh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = dtc.activation gelu_tanh %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @silu(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = dtc.activation silu %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @sigmoid(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = dtc.activation sigmoid %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @softplus(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = dtc.activation softplus %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @hard_swish(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<9.0> : tensor<3x5xf32>
  %s = arith.mulf %x, %c : tensor<3x5xf32>
  %y = dtc.activation hard_swish %s : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @hard_sigmoid(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<9.0> : tensor<3x5xf32>
  %s = arith.mulf %x, %c : tensor<3x5xf32>
  %y = dtc.activation hard_sigmoid %s : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @relu6(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<9.0> : tensor<3x5xf32>
  %s = arith.mulf %x, %c : tensor<3x5xf32>
  %y = dtc.activation relu6 %s : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}
