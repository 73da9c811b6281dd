// RUN: dtc-opt --split-input-file --dtc-key-dropout --verify-diagnostics %s

func.func @forward(%x: tensor<4x3xf32> {dtc.role = #dtc.role<input, "x">},
                   %w: tensor<3xf32> {dtc.role = #dtc.role<parameter, "w">}) -> tensor<3xf32> {
  // expected-error @+1 {{dropout in training mode is not supported on values without a dimension of samples, here 'tensor<3xf32>'}}
  %0 = dtc.dropout %w ratio 1.0e-1 : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error @+1 {{the model has an input with the name of dropout's own: dropout_keys}}
func.func @forward(%x: tensor<4x3xf32> {dtc.role = #dtc.role<input, "dropout_keys">}) -> tensor<4x3xf32> {
  %0 = dtc.dropout %x ratio 1.0e-1 : tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
