// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @addf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.addf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @subf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.subf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @mulf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.mulf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @maximumf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.maximumf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @minimumf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.minimumf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @maxnumf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.maxnumf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @minnumf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.minnumf %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @divf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<2.0> : tensor<3x5xf32>
  %d = arith.addf %b, %c : tensor<3x5xf32>
  %y = arith.divf %a, %d : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @powf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %c = arith.constant dense<1.5> : tensor<3x5xf32>
  %d = arith.addf %a, %c : tensor<3x5xf32>
  %y = math.powf %d, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @ties_share_the_gradient(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  // The maximum of a value and itself: each side gets half.
  %m = arith.maximumf %a, %a : tensor<3x5xf32>
  %n = arith.minimumf %b, %b : tensor<3x5xf32>
  %y = arith.mulf %m, %n : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @negf(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.negf %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @square_by_power(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %two = arith.constant dense<2.0> : tensor<3x5xf32>
  %y = math.powf %x, %two : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 45 elements}}
func.func @fma(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.fma %a, %b, %c : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @select(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>, %c: tensor<3x5xi1>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = arith.select %c, %a, %b : tensor<3x5xi1>, tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @casts(%x: tensor<3x5xf32>) -> tensor<3x5xf64> attributes {check_gradients} {
  %0 = arith.truncf %x : tensor<3x5xf32> to tensor<3x5xbf16>
  %1 = arith.extf %0 : tensor<3x5xbf16> to tensor<3x5xf64>
  %y = arith.mulf %1, %1 : tensor<3x5xf64>
  return %y : tensor<3x5xf64>
}

// One value read three times: contributions are summed.
// expected-remark@+1 {{gradient ok: 15 elements}}
func.func @sum_of_contributions(%x: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %0 = arith.mulf %x, %x : tensor<3x5xf32>
  %1 = math.exp %x : tensor<3x5xf32>
  %2 = arith.addf %0, %1 : tensor<3x5xf32>
  %y = arith.mulf %2, %x : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @atan2(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.atan2 %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @copysign(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %y = math.copysign %a, %b : tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @remf(%a: tensor<3x5xf32>, %b: tensor<3x5xf32>) -> tensor<3x5xf32> attributes {check_gradients} {
  %five = arith.constant dense<5.0> : tensor<3x5xf32>
  %two = arith.constant dense<2.0> : tensor<3x5xf32>
  %x = arith.mulf %a, %five : tensor<3x5xf32>
  %y = arith.addf %b, %two : tensor<3x5xf32>
  %z = arith.remf %x, %y : tensor<3x5xf32>
  return %z : tensor<3x5xf32>
}
