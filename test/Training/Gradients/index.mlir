// RUN: dtc-opt --dtc-check-gradients --verify-diagnostics %s

// Indices repeat: their gradients add up.
// expected-remark@+1 {{gradient ok: 20 elements}}
func.func @embedding(%table: tensor<5x4xf32>, %ids: tensor<2x3xi64> {test.bound = 5 : i64}) -> tensor<2x3x4xf32> attributes {check_gradients} {
  %y = dtc.gather %table, %ids axis 0 : tensor<5x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @gather_middle(%table: tensor<2x5x3xf32>, %ids: tensor<4xi32> {test.bound = 5 : i64}) -> tensor<2x4x3xf32> attributes {check_gradients} {
  %y = dtc.gather %table, %ids axis 1 : tensor<2x5x3xf32>, tensor<4xi32> -> tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// An index outside gives zeros and no gradient.
// expected-remark@+1 {{gradient ok: 6 elements}}
func.func @gather_outside(%table: tensor<3x2xf32>) -> tensor<4x2xf32> attributes {check_gradients} {
  %ids = arith.constant dense<[2, -1, 3, 2]> : tensor<4xi64>
  %y = dtc.gather %table, %ids axis 0 : tensor<3x2xf32>, tensor<4xi64> -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @pick(%x: tensor<2x3x5xf32>, %ids: tensor<2x3xi64> {test.bound = 5 : i64}) -> tensor<2x3xf32> attributes {check_gradients} {
  %y = dtc.pick %x, %ids : tensor<2x3x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// expected-remark@+1 {{gradient ok: 12 elements}}
func.func @pick_outside(%x: tensor<3x4xf32>) -> tensor<3xf32> attributes {check_gradients} {
  %ids = arith.constant dense<[3, -1, 4]> : tensor<3xi64>
  %y = dtc.pick %x, %ids : tensor<3x4xf32>, tensor<3xi64> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// What top_k chooses, the way TopK is imported.
// expected-remark@+1 {{gradient ok: 30 elements}}
func.func @top_k(%x: tensor<2x3x5xf32>) -> tensor<2x3x2xf32> attributes {check_gradients} {
  %at = dtc.top_k %x : tensor<2x3x5xf32> -> tensor<2x3x2xi64>
  %rows = dtc.broadcast %x [0, 1, 3] : tensor<2x3x5xf32> -> tensor<2x3x2x5xf32>
  %y = dtc.pick %rows, %at : tensor<2x3x2x5xf32>, tensor<2x3x2xi64> -> tensor<2x3x2xf32>
  return %y : tensor<2x3x2xf32>
}

// Against finite differences where no index is the padding row ...
// expected-remark@+1 {{gradient ok: 6 elements}}
func.func @gather_padding_row_unused(%table: tensor<3x2xf32>) -> tensor<2x2xf32> attributes {check_gradients} {
  %ids = arith.constant dense<[2, 0]> : tensor<2xi64>
  %y = dtc.gather %table, %ids axis 0 {paddingRow = 1 : i64} : tensor<3x2xf32>, tensor<2xi64> -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
