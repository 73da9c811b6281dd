// RUN: dtc-opt --split-input-file --verify-diagnostics --dtc-expert-slots="parts=2" %s

// What mixes rows isn't computed where they have slots.
func.func @forward(%x: tensor<2x16x6xf32>, %i: tensor<2x16xi64>) -> tensor<2x16x6xf32> {
  %0 = dtc.dispatch %x, %i experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
  // expected-error @+1 {{can't be computed where rows have slots with their experts, between dispatch and combine: dtc.transpose}}
  %1 = dtc.transpose %0 [1, 0, 2] : tensor<2x16x6xf32> -> tensor<16x2x6xf32>
  %2 = dtc.reshape %1 : tensor<16x2x6xf32> -> tensor<2x16x6xf32>
  %3 = dtc.combine %2, %i experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
  return %3 : tensor<2x16x6xf32>
}

// -----

// Rows that are never taken back.
func.func @forward(%x: tensor<2x16x6xf32>, %i: tensor<2x16xi64>) -> tensor<2x16x6xf32> {
  %0 = dtc.dispatch %x, %i experts 4 : tensor<2x16x6xf32>, tensor<2x16xi64>
  // expected-error @+1 {{between dispatch and combine: func.return}}
  return %0 : tensor<2x16x6xf32>
}
