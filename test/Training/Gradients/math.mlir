// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @absf(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.absf %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @acos(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<0.9> : tensor<3x5xf32>
  %p = arith.mulf %x, %c : tensor<3x5xf32>
  %y = math.acos %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @acosh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<2.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.acosh %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @asin(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<0.9> : tensor<3x5xf32>
  %p = arith.mulf %x, %c : tensor<3x5xf32>
  %y = math.asin %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @asinh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.asinh %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @atan(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.atan %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @atanh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<0.9> : tensor<3x5xf32>
  %p = arith.mulf %x, %c : tensor<3x5xf32>
  %y = math.atanh %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @cbrt(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.cbrt %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @ceil(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.ceil %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @cos(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.cos %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @cosh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.cosh %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @erf(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.erf %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @exp(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.exp %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @exp2(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.exp2 %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @expm1(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.expm1 %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @floor(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.floor %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @log(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.log %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @log10(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.log10 %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @log1p(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.log1p %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @log2(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.log2 %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @round(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.round %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @roundeven(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.roundeven %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @rsqrt(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.rsqrt %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @sin(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.sin %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @sinh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.sinh %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @sqrt(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %p = arith.addf %x, %c : tensor<3x5xf32>
  %y = math.sqrt %p : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @tan(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.tan %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @tanh(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.tanh %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @trunc(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.trunc %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @erfc(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.erfc %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 5 elements}}
func.func @fpowi(%x: tensor<5xf32>) -> tensor<5xf32> attributes {check_gradients} {
  %n = arith.constant dense<[0, 1, 2, 3, -2]> : tensor<5xi32>
  %y = math.fpowi %x, %n : tensor<5xf32>, tensor<5xi32>
  return %y : tensor<5xf32>
}
